#pragma once

#include "tracer/nvml_api.h"

namespace titan::interpose {

// Fills in NVML's functions; false where the program has not loaded it. It stays loaded from then on. cold.
bool find_nvml_api(tracer::NvmlApi& nvml);

}  // namespace titan::interpose

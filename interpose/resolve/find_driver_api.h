// libcuda's functions for the tracer's own use, checked against cuda.h.
#pragma once

#include "tracer/driver_api.h"

namespace titan::interpose {

// False when libcuda is not loaded or too old (before CUDA 10.1). Never loads it. cold.
bool find_driver_api(tracer::DriverApi& driver);

}  // namespace titan::interpose

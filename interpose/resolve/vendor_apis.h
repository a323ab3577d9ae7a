// Functions of libcuda and NVML for the tracer's own use, checked against the vendor's headers. Never loads a library;
// one that it finds stays loaded from then on. cold.
#pragma once

#include "tracer/driver_api.h"
#include "tracer/nvml_api.h"

namespace titan::interpose {

bool find_driver_api(tracer::DriverApi& driver);  // false when libcuda is not loaded or too old (before CUDA 10.1)
bool find_nvml_api(tracer::NvmlApi& nvml);        // false where the program has not loaded it

}  // namespace titan::interpose

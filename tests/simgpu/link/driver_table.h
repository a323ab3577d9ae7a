// The driver as the CUDA runtime and NCCL reach it: libcuda.so.1 opened at run time, each function through
// cuGetProcAddress. Nothing here is visible to someone who only stands in front of the PLT.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL

#include "simgpu_hook.h"

namespace simgpu {

struct DriverTable {
#define DRIVER(name, symbol) decltype(&::symbol) name = nullptr;
#include "driver_table.def"
#undef DRIVER
    // Changed its form in CUDA 12.5; this is the older one.
    decltype(&::cuStreamGetCtx) cuStreamGetCtx = nullptr;
    decltype(&::cuGetProcAddress_v2) cuGetProcAddress = nullptr;
    SimgpuHookState* api_hook = nullptr;
};

// The table, loaded once per library; null without a driver. The second one holds the forms for per-thread default
// streams, where a function has one.
const DriverTable* driver_table();
const DriverTable* per_thread_driver_table();

}  // namespace simgpu

// The thin layer that the CUDA runtime is: a current device per thread, the last error per thread, and the driver.
#pragma once

#include "driver_table.h"
#include "simgpu_try.h"

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

namespace simgpu {

// Remembers an error as the thread's last one, and passes it on.
cudaError_t remember(cudaError_t error);
cudaError_t take_last_error();
cudaError_t peek_last_error();

// Runtime and driver share their numbers since CUDA 10.
inline cudaError_t from_driver(CUresult result) { return static_cast<cudaError_t>(result); }

cudaError_t initialize();      // the driver, once
cudaError_t ensure_context();  // and the primary context of the thread's device
cudaError_t select_device(int device);
cudaError_t selected_device(int* device);
cudaError_t reset_device();

cudaError_t find_function(const void* stub, CUfunction* out);

// Runs a driver call with a current context. `table`: driver_table() or per_thread_driver_table().
template <typename Call>
cudaError_t forward(const DriverTable* table, Call call) {
    cudaError_t error = ensure_context();
    if (error == cudaSuccess) {
        error = from_driver(call(*table));
    }
    return remember(error);
}

// A function that NVIDIA's library exports though this header does not declare it.
#define EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace simgpu

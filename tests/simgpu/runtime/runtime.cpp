#include "runtime.h"

#include <map>
#include <mutex>

namespace simgpu {

namespace {

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local int t_device = 0;

// Primary contexts that this runtime retained; leaked on purpose, calls may come from other libraries' destructors.
struct Primaries {
    std::mutex lock;
    std::map<int, CUcontext> of_device;
};
Primaries& primaries() {
    static auto* instance = new Primaries;
    return *instance;
}

cudaError_t primary_context(int device, CUcontext* out) {
    std::lock_guard lock(primaries().lock);
    CUcontext& context = primaries().of_device[device];
    if (!context) {
        const CUresult result = driver_table()->cuDevicePrimaryCtxRetain(&context, device);
        if (result != CUDA_SUCCESS) {
            primaries().of_device.erase(device);
            return from_driver(result);
        }
    }
    *out = context;
    return cudaSuccess;
}

}  // namespace

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) {
        t_last_error = error;
    }
    return error;
}

cudaError_t take_last_error() {
    const cudaError_t error = t_last_error;
    t_last_error = cudaSuccess;
    return error;
}

cudaError_t peek_last_error() { return t_last_error; }

cudaError_t initialize() {
    const DriverTable* cu = driver_table();
    return cu ? from_driver(cu->cuInit(0)) : cudaErrorInsufficientDriver;
}

cudaError_t ensure_context() {
    SIMGPU_TRY(initialize());
    CUcontext current = nullptr;
    if (driver_table()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current) {
        return cudaSuccess;
    }
    return select_device(t_device);
}

cudaError_t select_device(int device) {
    SIMGPU_TRY(initialize());
    CUcontext context;
    SIMGPU_TRY(primary_context(device, &context));
    t_device = device;
    return from_driver(driver_table()->cuCtxSetCurrent(context));
}

cudaError_t selected_device(int* device) {
    SIMGPU_TRY(initialize());
    if (driver_table()->cuCtxGetDevice(device) != CUDA_SUCCESS) {
        *device = t_device;
    }
    return cudaSuccess;
}

cudaError_t reset_device() {
    int device;
    SIMGPU_TRY(selected_device(&device));
    std::lock_guard lock(primaries().lock);
    primaries().of_device.erase(device);
    const CUresult result = driver_table()->cuDevicePrimaryCtxReset(device);
    driver_table()->cuCtxSetCurrent(nullptr);
    return from_driver(result);
}

}  // namespace simgpu

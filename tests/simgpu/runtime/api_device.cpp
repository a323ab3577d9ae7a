// Runtime API: devices, versions, errors.
#include <cstring>

#include "runtime.h"

using namespace simgpu;

cudaError_t cudaGetDeviceCount(int* count) {
    const cudaError_t error = initialize();
    return remember(error != cudaSuccess ? error : from_driver(driver_table()->cuDeviceGetCount(count)));
}

cudaError_t cudaSetDevice(int device) { return remember(select_device(device)); }
cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) { return remember(select_device(device)); }

cudaError_t cudaGetDevice(int* device) { return remember(device ? selected_device(device) : cudaErrorInvalidValue); }

cudaError_t cudaDeviceReset(void) { return remember(reset_device()); }
cudaError_t cudaSetDeviceFlags(unsigned int) { return remember(initialize()); }

cudaError_t cudaDriverGetVersion(int* version) {
    *version = 0;
    return driver_table() ? from_driver(driver_table()->cuDriverGetVersion(version)) : cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = SIMGPU_CUDART_MAJOR * 1000;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return take_last_error(); }
cudaError_t cudaPeekAtLastError(void) { return peek_last_error(); }

namespace {

// Codes of the runtime alone, which the driver has no words for.
const char* runtime_text(cudaError_t error, bool name) {
    switch (error) {
        case cudaErrorInsufficientDriver:
            return name ? "cudaErrorInsufficientDriver"
                        : "CUDA driver version is insufficient for CUDA runtime version";
        case cudaErrorInvalidDeviceFunction: return name ? "cudaErrorInvalidDeviceFunction" : "invalid device function";
        default: return name ? "cudaErrorUnknown" : "unrecognized error code";
    }
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
    const char* text = nullptr;
    if (driver_table() && driver_table()->cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS) {
        return text;
    }
    return runtime_text(error, false);
}

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define ERROR_NAME(code) \
    case code:           \
        return #code;
#include "error_names.def"
#undef ERROR_NAME
        default: return runtime_text(error, true);
    }
}

#if SIMGPU_CUDART_MAJOR >= 13
namespace {

void fill_like_an_h100(cudaDeviceProp& properties, int device) {
    cudaDeviceProp all{};
    std::memcpy(all.name, properties.name, sizeof(all.name));
    all.uuid = properties.uuid;
    all.totalGlobalMem = properties.totalGlobalMem;
    all.sharedMemPerBlock = 48 << 10;
    all.sharedMemPerBlockOptin = 227 << 10;
    all.sharedMemPerMultiprocessor = 228 << 10;
    all.regsPerBlock = all.regsPerMultiprocessor = 65536;
    all.warpSize = 32;
    all.maxThreadsPerBlock = 1024;
    all.maxThreadsPerMultiProcessor = 2048;
    all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
    all.maxThreadsDim[2] = 64;
    all.maxGridSize[0] = INT32_MAX;
    all.maxGridSize[1] = all.maxGridSize[2] = 65535;
    all.major = 9;
    all.multiProcessorCount = 132;
    all.l2CacheSize = 50 << 20;
    all.memoryBusWidth = 5120;
    all.concurrentKernels = all.unifiedAddressing = all.managedMemory = all.canMapHostMemory = 1;
    all.asyncEngineCount = 3;
    all.pciBusID = device + 1;
    properties = all;
}

}  // namespace
#endif

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (const cudaError_t error = initialize(); error != cudaSuccess) {
        return remember(error);
    }
    // The structs of CUDA 12 and 13 differ in their tails: of 12 only the head that they share is written.
    const CUresult result = driver_table()->cuDeviceGetName(properties->name, sizeof(properties->name), device);
    if (result == CUDA_SUCCESS) {
        driver_table()->cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties->uuid), device);
        driver_table()->cuDeviceTotalMem(&properties->totalGlobalMem, device);
#if SIMGPU_CUDART_MAJOR >= 13
        fill_like_an_h100(*properties, device);
#endif
    }
    return remember(from_driver(result));
}

#if SIMGPU_CUDART_MAJOR < 13
EXPORT cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) {
    return cudaGetDeviceProperties(properties, device);
}
#endif

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    const cudaError_t error = initialize();
    return remember(error != cudaSuccess ? error
                                         : from_driver(driver_table()->cuDeviceGetAttribute(
                                               value, static_cast<CUdevice_attribute>(attribute), device)));
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    const cudaError_t error = initialize();
    return remember(error != cudaSuccess ? error
                                         : from_driver(driver_table()->cuDeviceGetPCIBusId(text, length, device)));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    const cudaError_t error = initialize();
    return remember(error != cudaSuccess ? error
                                         : from_driver(driver_table()->cuDeviceCanAccessPeer(can, device, peer)));
}

namespace {

cudaError_t entry_point(const char* symbol, void** out, int version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
    if (const cudaError_t error = initialize(); error != cudaSuccess) {
        return remember(error);
    }
    CUdriverProcAddressQueryResult found;
    const CUresult result = driver_table()->cuGetProcAddress(symbol, out, version, flags, &found);
    if (status) {
        *status = found == CU_GET_PROC_ADDRESS_SUCCESS            ? cudaDriverEntryPointSuccess
                  : found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND ? cudaDriverEntryPointSymbolNotFound
                                                                  : cudaDriverEntryPointVersionNotSufficent;
    }
    return remember(from_driver(result));
}

// What the caller leaves to us is the kind of default stream that it was built for.
unsigned long long resolve(unsigned long long flags, unsigned long long built_for) {
    return flags == cudaEnableDefault ? built_for : flags;
}

constexpr int kVersion = SIMGPU_CUDART_MAJOR * 1000;

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned int version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, out, static_cast<int>(version), resolve(flags, cudaEnableLegacyStream), status);
}

EXPORT cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** out, unsigned int version,
                                                         unsigned long long flags,
                                                         cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, out, static_cast<int>(version), resolve(flags, cudaEnablePerThreadDefaultStream),
                       status);
}

// Gone from CUDA 13's header, still exported by its library.
EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                           cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, out, kVersion, resolve(flags, cudaEnableLegacyStream), status);
}

EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** out, unsigned long long flags,
                                                cudaDriverEntryPointQueryResult* status) {
    return entry_point(symbol, out, kVersion, resolve(flags, cudaEnablePerThreadDefaultStream), status);
}

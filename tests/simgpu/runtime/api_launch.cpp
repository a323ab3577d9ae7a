// Runtime API: registered functions and launches, with the hidden entry points that nvcc's output calls.
#include <map>
#include <mutex>
#include <string>

#include "cbids.h"
#include "runtime.h"
#include "simgpu.h"

using namespace simgpu;

namespace {

struct Registered {
    void* image = nullptr;
    std::string name;
    CUfunction function = nullptr;
};

struct Image {
    const void* data = nullptr;
    CUmodule module = nullptr;
};

// Leaked: registrations come from static constructors and go in static destructors of others.
struct Functions {
    std::mutex lock;
    std::map<const void*, Registered> by_stub;
};
Functions& functions() {
    static auto* instance = new Functions;
    return *instance;
}

struct CallConfiguration {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
};
CallConfiguration& pending() {
    thread_local CallConfiguration configuration;
    return configuration;
}

}  // namespace

cudaError_t simgpu::find_function(const void* stub, CUfunction* out) {
    std::lock_guard lock(functions().lock);
    auto found = functions().by_stub.find(stub);
    if (found == functions().by_stub.end()) {
        return cudaErrorInvalidDeviceFunction;
    }
    Registered& entry = found->second;
    if (!entry.function) {
        auto* image = static_cast<Image*>(entry.image);
        CUresult result = CUDA_SUCCESS;
        if (!image->module) {
            result = driver_table()->cuModuleLoadData(&image->module, image->data);
        }
        if (result == CUDA_SUCCESS) {
            result = driver_table()->cuModuleGetFunction(&entry.function, image->module, entry.name.c_str());
        }
        if (result != CUDA_SUCCESS) {
            return from_driver(result);
        }
    }
    *out = entry.function;
    return cudaSuccess;
}

EXPORT void** __cudaRegisterFatBinary(void* image) { return reinterpret_cast<void**>(new Image{image, nullptr}); }
EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
EXPORT void __cudaUnregisterFatBinary(void** handle) {
    std::lock_guard lock(functions().lock);
    std::erase_if(functions().by_stub, [&](const auto& row) { return row.second.image == handle; });
    auto* image = reinterpret_cast<Image*>(handle);
    if (image->module && driver_table()) {
        driver_table()->cuModuleUnload(image->module);
    }
    delete image;
}

EXPORT void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, void*, void*, void*,
                                   void*, int*) {
    std::lock_guard lock(functions().lock);
    functions().by_stub[stub] = Registered{handle, name, nullptr};
}

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
    pending() = {grid, block, shared_bytes, stream};
    return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
    *grid = pending().grid;
    *block = pending().block;
    *shared_bytes = pending().shared_bytes;
    *static_cast<cudaStream_t*>(stream) = pending().stream;
    return cudaSuccess;
}

// A kernel's handle is its stub.
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
    return cudaSuccess;
}

namespace {

template <typename Launch>
cudaError_t launch(const DriverTable* table, const void* stub, Launch call) {
    cudaError_t error = ensure_context();
    CUfunction function = nullptr;
    if (error == cudaSuccess) {
        error = find_function(stub, &function);
    }
    if (error == cudaSuccess) {
        error = from_driver(call(*table, function));
    }
    return remember(error);
}

const char* kernel_name(const void* stub) {
    std::lock_guard lock(functions().lock);
    const auto found = functions().by_stub.find(stub);
    return found == functions().by_stub.end() ? nullptr : found->second.name.c_str();
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& from) {
    CUlaunchConfig config = {};
    config.gridDimX = from.gridDim.x;
    config.gridDimY = from.gridDim.y;
    config.gridDimZ = from.gridDim.z;
    config.blockDimX = from.blockDim.x;
    config.blockDimY = from.blockDim.y;
    config.blockDimZ = from.blockDim.z;
    config.sharedMemBytes = static_cast<unsigned>(from.dynamicSmemBytes);
    config.hStream = from.stream;
    return config;
}

}  // namespace

// name, parameters, arguments, driver call: once for each kind of default stream
#define LAUNCH_AS(name, parameters, arguments, table, ...)                                                           \
    cudaError_t name parameters {                                                                                    \
        TRACED(                                                                                                      \
            name, arguments, [&] { return kernel_name(stub); },                                                      \
            [&] {                                                                                                    \
                return launch(table, stub, [&](const DriverTable& cu, CUfunction function) { return __VA_ARGS__; }); \
            })                                                                                                       \
    }
#define LAUNCH(name, parameters, arguments, ...)                        \
    LAUNCH_AS(name, parameters, arguments, driver_table(), __VA_ARGS__) \
    EXPORT decltype(name) name##_ptsz;                                  \
    LAUNCH_AS(name##_ptsz, parameters, arguments, per_thread_driver_table(), __VA_ARGS__)

LAUNCH(cudaLaunchKernel,
       (const void* stub, dim3 grid, dim3 block, void** args, size_t shared_bytes, cudaStream_t stream),
       (stub, grid, block, args, shared_bytes, stream),
       cu.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                         static_cast<unsigned>(shared_bytes), stream, args, nullptr))
LAUNCH(cudaLaunchCooperativeKernel,
       (const void* stub, dim3 grid, dim3 block, void** args, size_t shared_bytes, cudaStream_t stream),
       (stub, grid, block, args, shared_bytes, stream),
       cu.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                    static_cast<unsigned>(shared_bytes), stream, args))
LAUNCH(cudaLaunchKernelExC, (const cudaLaunchConfig_t* config, const void* stub, void** args), (config, stub, args),
       [&] {
           if (!config) {
               return CUDA_ERROR_INVALID_VALUE;
           }
           const CUlaunchConfig translated = driver_config(*config);
           return cu.cuLaunchKernelEx(&translated, function, args, nullptr);
       }())

cudaError_t cudaFuncGetName(const char** name, const void* stub) {
    return launch(driver_table(), stub,
                  [&](const DriverTable& cu, CUfunction function) { return cu.cuFuncGetName(name, function); });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* stub) {
    return launch(driver_table(), stub, [&](const DriverTable&, CUfunction function) {
        *out = function;
        return CUDA_SUCCESS;
    });
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                      cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, args, shared_bytes, stream);
}
EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                           cudaStream_t stream) {
    return cudaLaunchKernel_ptsz(kernel, grid, block, args, shared_bytes, stream);
}

// Driver API: modules, functions and launches.
#include <array>
#include <cstring>

#include "foreign.h"
#include "impl.h"

namespace simgpu::impl {

namespace {

// What nvcc's output and compilers at run time bring: wrapped fat binaries, bare ones, ELF files, and PTX, which is
// text that begins with a comment or with its version.
bool is_foreign(const void* image) {
    uint32_t magic;
    std::memcpy(&magic, image, sizeof(magic));
    return magic == 0x466243b1 || magic == 0xba55ed50 || magic == 0x464c457f || std::memcmp(image, "//", 2) == 0 ||
           std::memcmp(image, ".ver", 4) == 0;
}

using Grid = std::array<uint32_t, 3>;

// Arguments live from the launch until the kernel has run (in a graph: until the graph is destroyed).
struct Arguments {
    std::vector<std::vector<char>> values;
    std::shared_ptr<int32_t> cancelled;
    Grid grid;

    Arguments(const SimgpuKernel& kernel, void** params, std::shared_ptr<int32_t> flag, const Grid& blocks)
        : cancelled(std::move(flag)), grid(blocks) {
        for (uint32_t i = 0; i < kernel.arg_count; ++i) {
            const char* from = static_cast<const char*>(params[i]);
            values.emplace_back(from, from + kernel.arg_bytes[i]);
        }
    }

    void run(SimgpuKernelBody body) {
        void* pointers[kSimgpuMaxArgs + 2] = {};
        size_t i = 0;
        for (auto& value : values) {
            pointers[i++] = value.data();
        }
        pointers[i] = cancelled.get();
        pointers[i + 1] = grid.data();
        body(pointers);
    }
};

bool is_function(CUfunction function) {
    std::lock_guard lock(driver().lock);
    return driver().functions.count(function) != 0;
}

CUresult launch(CUfunction function, CUstream handle, void** params, const Grid& grid) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    if (!is_function(function)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (function->kernel.arg_count && !params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    auto arguments = std::make_shared<Arguments>(function->kernel, params, stream->context->cancelled, grid);
    const SimgpuKernelBody body = function->kernel.body;
    return submit(
        stream, CU_GRAPH_NODE_TYPE_KERNEL, [arguments, body] { arguments->run(body); }, function->name);
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    SIMGPU_TRY(ready());
    const auto* binary = static_cast<const SimgpuFatBinary*>(image);
    if (!out || !binary || (binary->magic != SIMGPU_FATBIN_MAGIC && !is_foreign(binary))) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    auto* module = new CUmod_st;
    module->foreign = binary->magic != SIMGPU_FATBIN_MAGIC;
    std::lock_guard lock(driver().lock);
    for (uint32_t i = 0; i < (module->foreign ? 0 : binary->kernel_count); ++i) {
        const SimgpuKernel& kernel = binary->kernels[i];
        if (kernel.arg_count > kSimgpuMaxArgs) {
            delete module;
            return CUDA_ERROR_INVALID_IMAGE;
        }
        module->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{kernel, kernel.name, module}));
        driver().functions.insert(module->functions.back().get());
    }
    driver().modules.insert(module);
    *out = module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
    return impl::cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) { return impl::cuModuleLoadData(out, image); }

CUresult cuModuleUnload(CUmodule module) {
    std::lock_guard lock(driver().lock);
    if (!driver().modules.erase(module)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (const auto& function : module->functions) {
        driver().functions.erase(function.get());
    }
    delete module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
    std::lock_guard lock(driver().lock);
    if (!driver().modules.count(module)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (const auto& function : module->functions) {
        if (function->name == name) {
            *out = function.get();
            return CUDA_SUCCESS;
        }
    }
    if (!module->foreign) {
        return CUDA_ERROR_NOT_FOUND;
    }
    SimgpuKernel kernel = foreign::find(name);
    if (!kernel.body) {
        kernel.body = [](void**) {};
    }
    module->functions.push_back(std::make_unique<CUfunc_st>(CUfunc_st{kernel, name, module}));
    *out = module->functions.back().get();
    driver().functions.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    std::lock_guard lock(driver().lock);
    return driver().functions.count(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
    std::lock_guard lock(driver().lock);
    if (!name || !driver().functions.count(function)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *name = function->name.c_str();
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction function) {
    std::lock_guard lock(driver().lock);
    if (!out || !driver().functions.count(function)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = function->module;
    return CUDA_SUCCESS;
}

// Of a small kernel: whoever asks wants to know whether a block fits.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    if (!value || !is_function(function)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
        default: *value = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int) {
    return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
    return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t) {
    if (!blocks || threads <= 0 || !is_function(function)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *blocks = std::max(1, 2048 / threads);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned,
                        CUstream stream, void** params, void**) {
    return launch(function, stream, params, {x, y, z});
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void**) {
    return config ? launch(function, config->hStream, params, {config->gridDimX, config->gridDimY, config->gridDimZ})
                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned, unsigned,
                                   unsigned, unsigned, CUstream stream, void** params) {
    return launch(function, stream, params, {x, y, z});
}

}  // namespace simgpu::impl

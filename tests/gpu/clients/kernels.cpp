#include "kernels.h"

#include "rank.h"

namespace gpu_check {
namespace {

constexpr unsigned kBlockThreads = 128;

void launch(CUfunction function, unsigned blocks, CUstream stream, void** arguments) {
    DRIVER(cuLaunchKernel(function, blocks, 1, 1, kBlockThreads, 1, 1, 0, stream, arguments, nullptr));
}

}  // namespace

Kernels::Kernels() {
    if (cuModuleLoadData(&module_, kPtx) != CUDA_SUCCESS) {
        DRIVER(cuModuleLoadData(&module_, simulated_kernels()));
    }
    DRIVER(cuModuleGetFunction(&hold_, module_, "gpu_check_hold"));
    DRIVER(cuModuleGetFunction(&busy_, module_, "gpu_check_busy"));
    DRIVER(cuModuleGetFunction(&add_, module_, "gpu_check_add"));
}

void Kernels::hold(CUdeviceptr flag, uint64_t bound_ns, CUstream stream) const {
    void* arguments[] = {&flag, &bound_ns};
    launch(hold_, 1, stream, arguments);
}

void Kernels::busy(uint64_t duration_ns, unsigned blocks, CUstream stream) const {
    void* arguments[] = {&duration_ns};
    launch(busy_, blocks, stream, arguments);
}

void Kernels::add(CUdeviceptr data, uint32_t count, float value, CUstream stream) const {
    void* arguments[] = {&data, &count, &value};
    launch(add_, (count + kBlockThreads - 1) / kBlockThreads, stream, arguments);
}

}  // namespace gpu_check

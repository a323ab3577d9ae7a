// The CUDA runtime's part of the overhead check: what cudaLaunchKernel costs the host, as "key value" lines. The kernel
// comes from PTX text through the runtime's own library functions; the stand-in, which has none, gets a table of
// functions.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels.h"

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_stub, const char* name, int thread_limit,
                            void* tid, void* bid, void* block_dim, void* grid_dim, int* warp_size);
}

namespace {

const char kStub = 0;
constexpr int kBatches = 9;

void require(cudaError_t result, const char* what) {
    if (result != cudaSuccess) {
        std::printf("%s: %s\n", what, cudaGetErrorName(result));
        std::fflush(stdout);
        _exit(1);
    }
}

#define RUNTIME(call) require((call), #call)

template <typename Function>
Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const void* kernel() {
    const auto load = find<decltype(&cudaLibraryLoadData)>("cudaLibraryLoadData");
    const auto get = find<decltype(&cudaLibraryGetKernel)>("cudaLibraryGetKernel");
    cudaLibrary_t library = nullptr;
    // The simulated runtime takes no code for real GPUs here.
    if (load && get && load(&library, gpu_check::kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess) {
        cudaKernel_t found = nullptr;
        RUNTIME(get(&found, library, "gpu_check_add"));
        return found;
    }
    void** const handle = __cudaRegisterFatBinary(const_cast<void*>(gpu_check::simulated_kernels()));
    __cudaRegisterFunction(handle, &kStub, nullptr, "gpu_check_add", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(handle);
    return &kStub;
}

}  // namespace

int main() {
    int version = 0;
    RUNTIME(cudaRuntimeGetVersion(&version));
    std::printf("cudart %d\n", version);
    std::fflush(stdout);
    RUNTIME(cudaSetDevice(0));
    cudaStream_t stream = nullptr;
    void* data = nullptr;
    RUNTIME(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    RUNTIME(cudaMalloc(&data, 1024 * sizeof(float)));
    const void* const function = kernel();
    uint32_t count = 1024;
    float value = 1.0f;
    void* arguments[] = {&data, &count, &value};

    const char* const text = std::getenv("GPU_CHECK_CALLS");
    const int calls = text ? std::atoi(text) : 500;
    std::vector<double> host_ns;
    for (int batch = 0; batch < kBatches; ++batch) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) {
            RUNTIME(cudaLaunchKernel(function, dim3(8), dim3(128), arguments, 0, stream));
        }
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        RUNTIME(cudaStreamSynchronize(stream));
        if (batch > 0) {
            host_ns.push_back(took.count() / calls);
        }
    }
    std::nth_element(host_ns.begin(), host_ns.begin() + host_ns.size() / 2, host_ns.end());
    std::printf("cudaLaunchKernel_host_ns %.1f\n", host_ns[host_ns.size() / 2]);
    return 0;
}

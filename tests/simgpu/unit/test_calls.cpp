// The calls that a tracer stands in front of: forms for per-thread default streams, entry points by name, copies of
// every shape, words that streams write and wait for, names.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "node.h"

using namespace simgpu_test;

namespace {

const cudaStream_t kPerThread = cudaStreamPerThread;

template <typename F>
F* entry(const char* name, unsigned long long flags, unsigned version = CUDA_VERSION) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, version, flags, &status) == cudaSuccess);
    CHECK(status == cudaDriverEntryPointSuccess);
    return reinterpret_cast<F*>(found);
}

void* address(const char* name, unsigned long long flags, unsigned version = CUDA_VERSION) {
    return reinterpret_cast<void*>(entry<void()>(name, flags, version));
}

void* cudart(const char* name) { return dlsym(RTLD_DEFAULT, name); }
void* libcuda(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }

}  // namespace

TEST_CASE("the null stream of a _ptsz entry point is the thread's own") {
    // The legacy stream hangs behind a blocking one; the per-thread stream of a thread that never used it does not.
    std::thread([] {
        using Query = cudaError_t(cudaStream_t);
        auto* query_ptsz = reinterpret_cast<Query*>(cudart("cudaStreamQuery_ptsz"));
        auto* launch_ptsz = reinterpret_cast<decltype(&cudaLaunchHostFunc)>(cudart("cudaLaunchHostFunc_ptsz"));
        REQUIRE(static_cast<bool>(query_ptsz));
        REQUIRE(static_cast<bool>(launch_ptsz));
        std::atomic<bool> release{false};
        const auto wait = [](void* flag) {
            while (!*static_cast<std::atomic<bool>*>(flag)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        };
        CHECK(launch_ptsz(nullptr, wait, &release) == cudaSuccess);
        CHECK(query_ptsz(nullptr) == cudaErrorNotReady);
        CHECK(cudaStreamQuery(kPerThread) == cudaErrorNotReady);
        CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
        std::thread([&] {
            CHECK(query_ptsz(nullptr) == cudaSuccess);  // another thread, another stream
        }).join();
        release = true;
        CHECK(cudaStreamSynchronize(kPerThread) == cudaSuccess);
        CHECK(cudaGetLastError() == cudaErrorNotReady);
    }).join();
}

TEST_CASE("cuGetProcAddress hands out the form of the version and of the default stream that it is asked for") {
    CHECK(address("cuMemcpyAsync", cudaEnableLegacyStream) == libcuda("cuMemcpyAsync"));
    CHECK(address("cuMemcpyAsync", cudaEnableDefault) == libcuda("cuMemcpyAsync"));
    CHECK(address("cuMemcpyAsync", cudaEnablePerThreadDefaultStream) == libcuda("cuMemcpyAsync_ptsz"));
    CHECK(address("cuMemcpyHtoD", cudaEnablePerThreadDefaultStream) == libcuda("cuMemcpyHtoD_v2_ptds"));
    CHECK(address("cuEventQuery", cudaEnablePerThreadDefaultStream) == libcuda("cuEventQuery"));
    CHECK(address("cuStreamWriteValue64", 0, 11000) == libcuda("cuStreamWriteValue64"));
    CHECK(address("cuStreamWriteValue64", 0) == libcuda("cuStreamWriteValue64_v2"));
    auto* by_default =
        reinterpret_cast<decltype(&cudaGetDriverEntryPointByVersion)>(cudart("cudaGetDriverEntryPointByVersion_ptsz"));
    REQUIRE(static_cast<bool>(by_default));
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(by_default("cuMemcpyAsync", &found, CUDA_VERSION, cudaEnableDefault, &status) == cudaSuccess);
    CHECK(found == libcuda("cuMemcpyAsync_ptsz"));

    // The form with four arguments of CUDA 11, and the newer one with five.
    auto* v1 = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t)>(libcuda("cuGetProcAddress"));
    auto* v2 = reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
        libcuda("cuGetProcAddress_v2"));
    REQUIRE(static_cast<bool>(v1));
    REQUIRE(static_cast<bool>(v2));
    CHECK(v1("cuGetProcAddress", &found, 11030, 0) == CUDA_SUCCESS);
    CHECK(found == reinterpret_cast<void*>(v1));
    CHECK(v1("cuGetProcAddress", &found, 12000, 0) == CUDA_SUCCESS);
    CHECK(found == reinterpret_cast<void*>(v2));
    CHECK(v1("cuLaunchKernelEx", &found, 11000, 0) == CUDA_ERROR_NOT_FOUND);
    CUdriverProcAddressQueryResult why;
    CHECK(v2("cuLaunchKernelEx", &found, 11000, 0, &why) == CUDA_SUCCESS);
    CHECK(why == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CHECK(found == nullptr);
    CHECK(v2("cuNobody", &found, 13000, 0, &why) == CUDA_SUCCESS);
    CHECK(why == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(v2("cuMemcpy", &found, 13000, 3, &why) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("copies and sets of rectangles and boxes") {
    unsigned char from[4][8], to[4][8] = {};
    for (int i = 0; i < 32; ++i) {
        from[i / 8][i % 8] = static_cast<unsigned char>(i);
    }
    CHECK(cudaMemcpy2D(&to[0][2], 8, &from[1][4], 8, 3, 2, cudaMemcpyDefault) == cudaSuccess);
    CHECK(to[0][2] == 12);
    CHECK(to[1][4] == 22);
    CHECK(to[1][5] == 0);
    CHECK(to[2][2] == 0);
    cudaMemcpy3DParms box = {};
    box.srcPtr = {from, 4, 4, 2};  // four planes of two rows of four
    box.dstPtr = {to, 4, 4, 2};
    box.srcPos = {0, 0, 1};
    box.dstPos = {1, 0, 2};
    box.extent = {2, 2, 2};
    std::memset(to, 0, sizeof(to));
    CHECK(cudaMemcpy3D(&box) == cudaSuccess);
    CHECK(to[2][1] == 8);
    CHECK(to[2][6] == 13);
    CHECK(to[3][1] == 16);
    CHECK(to[1][1] == 0);
    CHECK(cudaMemset2D(to, 8, 7, 2, 3) == cudaSuccess);
    CHECK(cudaMemset3DAsync({to, 8, 8, 4}, 9, {1, 1, 1}, nullptr) == cudaSuccess);
    CHECK(cudaMemcpyPeer(&to[3][7], 1, &from[3][6], 0, 1) == cudaSuccess);
    CHECK(to[0][0] == 9);
    CHECK(to[2][1] == 7);
    CHECK(to[3][7] == 30);
}

TEST_CASE("streams write and wait for words in registered memory that another process shares") {
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    auto* get = entry<decltype(cuMemHostGetDevicePointer_v2)>("cuMemHostGetDevicePointer", 0);
    auto* write = entry<decltype(cuStreamWriteValue64_v2)>("cuStreamWriteValue64", 0);
    auto* write_small = entry<decltype(cuStreamWriteValue32_v2)>("cuStreamWriteValue32", 0);
    auto* wait = entry<decltype(cuStreamWaitValue64_v2)>("cuStreamWaitValue64", 0);
    CUdeviceptr at = 0;
    CHECK(get(&at, page, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(write(stream, reinterpret_cast<CUdeviceptr>(page), 1, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaHostRegister(page, 4096, cudaHostRegisterMapped) == cudaSuccess);
    CHECK(cudaHostRegister(page, 4096, cudaHostRegisterMapped) == cudaErrorHostMemoryAlreadyRegistered);
    REQUIRE(get(&at, page, 0) == CUDA_SUCCESS);
    auto* words = static_cast<std::atomic<uint64_t>*>(page);
    CHECK(write(stream, at, 5, 0) == CUDA_SUCCESS);
    CHECK(wait(stream, at + 8, 7, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    CHECK(write_small(stream, at + 16, 9, 0) == CUDA_SUCCESS);
    CHECK(write(stream, at + 4, 9, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(eventually([&] { return words[0] == 5; }));
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK(words[2] == 0);
    words[1] = 8;
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(words[2] == 9);
    CHECK(cudaHostUnregister(page) == cudaSuccess);
    CHECK(cudaHostUnregister(page) == cudaErrorHostMemoryNotRegistered);
    CHECK(get(&at, page, 0) == CUDA_ERROR_INVALID_VALUE);
    cudaStreamDestroy(stream);
    munmap(page, 4096);
}

TEST_CASE("a copy from stalled memory never ends") {
    std::thread([] {
        cudaSetDevice(6);
        cudaStream_t stream;
        REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
        int to = 0;
        CHECK(cudaMemcpyAsync(&to, SIMGPU_STALLED_MEMORY, 4, cudaMemcpyDefault, stream) == cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
        CHECK(cudaDeviceReset() == cudaSuccess);
    }).join();
}

TEST_CASE("functions have names, until their module is gone") {
    auto* load = entry<decltype(cuModuleLoadData)>("cuModuleLoadData", 0);
    auto* unload = entry<decltype(cuModuleUnload)>("cuModuleUnload", 0);
    auto* get = entry<decltype(cuModuleGetFunction)>("cuModuleGetFunction", 0);
    auto* name_of = entry<decltype(cuFuncGetName)>("cuFuncGetName", 0);
    static const SimgpuKernel kernels[] = {{"flash_fwd_kernel", [](void**) {}, 0, {}}};
    static const SimgpuFatBinary binary = {SIMGPU_FATBIN_MAGIC, 1, kernels};
    CUmodule module;
    CUfunction function;
    REQUIRE(load(&module, &binary) == CUDA_SUCCESS);
    REQUIRE(get(&function, module, "flash_fwd_kernel") == CUDA_SUCCESS);
    const char* name = nullptr;
    CHECK(name_of(&name, function) == CUDA_SUCCESS);
    CHECK(std::string(name) == "flash_fwd_kernel");
    auto* load_function = entry<decltype(cuFuncLoad)>("cuFuncLoad", 0);
    CHECK(load_function(function) == CUDA_SUCCESS);
    CHECK(unload(module) == CUDA_SUCCESS);
    CHECK(name_of(&name, function) == CUDA_ERROR_INVALID_VALUE);
    CHECK(unload(module) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(load_function(function) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("stream-ordered allocations") {
    cudaStream_t stream;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    float* data = nullptr;
    REQUIRE(cudaMallocAsync(reinterpret_cast<void**>(&data), 64, stream) == cudaSuccess);
    simgpu_launch_fill(data, 16, 2, stream);
    float host = 0;
    cudaMemcpyAsync(&host, data + 15, 4, cudaMemcpyDefault, stream);
    CHECK(cudaFreeAsync(data, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(host == 2);
    CHECK(cudaFree(data) == cudaErrorInvalidValue);
    cudaGetLastError();
    cudaStreamDestroy(stream);
}

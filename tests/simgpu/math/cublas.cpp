// The calls of cuBLAS and cuBLASLt that training makes. They compute nothing: each launches one kernel of that name on
// the stream of the call. Preloaded, so that they win over the real libraries, which a framework's run path finds;
// everything else of cuBLAS stays real. Signatures as in cublas_api.h and cublasLt.h of CUDA 13, whose headers are in
// packages of their own; a status is an int, 0 success.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simgpu.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
extern "C" void** __cudaRegisterFatBinary(void* image);
extern "C" void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, void*, void*,
                                       void*, void*, int*);

namespace {

constexpr int kSuccess = 0;

struct Handle {
    cudaStream_t stream;
    int math_mode;
    int pointer_mode;
};

const char kStub = 0;  // its address is the kernel's

int launch(cudaStream_t stream) {
    static const SimgpuKernel kernel{"simgpu_gemm", [](void**) {}, 0, {}};
    static SimgpuFatBinary binary{SIMGPU_FATBIN_MAGIC, 1, &kernel};
    static const bool registered = [] {
        __cudaRegisterFunction(__cudaRegisterFatBinary(&binary), &kStub, nullptr, "simgpu_gemm", -1, nullptr, nullptr,
                               nullptr, nullptr, nullptr);
        return true;
    }();
    (void)registered;
    return static_cast<int>(cudaLaunchKernel(&kStub, dim3(1), dim3(1), nullptr, 0, stream));
}

int launch(const void* handle) { return launch(static_cast<const Handle*>(handle)->stream); }

}  // namespace

EXPORT int cublasCreate_v2(void** handle) {
    *handle = new Handle{};
    return kSuccess;
}
EXPORT int cublasDestroy_v2(void* handle) {
    delete static_cast<Handle*>(handle);
    return kSuccess;
}
EXPORT int cublasSetStream_v2(void* handle, cudaStream_t stream) {
    static_cast<Handle*>(handle)->stream = stream;
    return kSuccess;
}
EXPORT int cublasGetStream_v2(void* handle, cudaStream_t* stream) {
    *stream = static_cast<Handle*>(handle)->stream;
    return kSuccess;
}
EXPORT int cublasSetWorkspace_v2(void*, void*, size_t) { return kSuccess; }
EXPORT int cublasSetSmCountTarget(void*, int) { return kSuccess; }
EXPORT int cublasSetMathMode(void* handle, int mode) {
    static_cast<Handle*>(handle)->math_mode = mode;
    return kSuccess;
}
EXPORT int cublasGetMathMode(void* handle, int* mode) {
    *mode = static_cast<Handle*>(handle)->math_mode;
    return kSuccess;
}
EXPORT int cublasSetPointerMode_v2(void* handle, int mode) {
    static_cast<Handle*>(handle)->pointer_mode = mode;
    return kSuccess;
}
EXPORT int cublasGetPointerMode_v2(void* handle, int* mode) {
    *mode = static_cast<Handle*>(handle)->pointer_mode;
    return kSuccess;
}

// The handle comes first in each; nobody reads the rest.
#define GEMM(name) \
    EXPORT int name(void* handle, ...) { return launch(handle); }
GEMM(cublasSgemm_v2)
GEMM(cublasDgemm_v2)
GEMM(cublasGemmEx)
GEMM(cublasSgemmEx)
GEMM(cublasSgemv_v2)
GEMM(cublasDgemv_v2)
GEMM(cublasSgemmBatched)
GEMM(cublasDgemmBatched)
GEMM(cublasSgemmStridedBatched)
GEMM(cublasDgemmStridedBatched)
GEMM(cublasGemmStridedBatchedEx)
GEMM(cublasSdot_v2)
GEMM(cublasDdot_v2)
GEMM(cublasDotEx)

// cuBLASLt: descriptions are small objects that nobody reads.
EXPORT size_t cublasLtGetVersion(void) { return 130000; }
#define DESCRIPTION(name)                       \
    EXPORT int name##Create(void** made, ...) { \
        *made = new char[8];                    \
        return kSuccess;                        \
    }                                           \
    EXPORT int name##Destroy(void* made) {      \
        delete[] static_cast<char*>(made);      \
        return kSuccess;                        \
    }                                           \
    EXPORT int name##SetAttribute(void*, int, const void*, size_t) { return kSuccess; }
DESCRIPTION(cublasLtMatmulDesc)
DESCRIPTION(cublasLtMatmulPreference)
DESCRIPTION(cublasLtMatrixLayout)

namespace {

struct LtAlgorithm {
    uint64_t data[8];
};

struct LtHeuristicResult {
    LtAlgorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

}  // namespace

EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted,
                                          LtHeuristicResult* results, int* found) {
    *found = wanted > 0 ? 1 : 0;
    if (wanted > 0) {
        std::memset(results, 0, sizeof(*results));
    }
    return kSuccess;
}
EXPORT int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*,
                          void*, void*, void*, const LtAlgorithm*, void*, size_t, cudaStream_t stream) {
    return launch(stream);
}

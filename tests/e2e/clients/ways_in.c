/* One program, several ways to reach CUDA and NCCL, and the same work on each: prints what it computed.
 *
 *   ways_in FLAGS LIBNCCL LIBCUDART    the functions by dlsym from libraries opened with FLAGS (of local, deepbind)
 *   ways_in FLAGS LIBRARY              all of it in a library that is linked with both itself (WAYS_LIBRARY)
 *   with WAYS_STATIC: linked with a static runtime, and libnccl as usual */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu.h"

/* What nvcc's output calls, in no header. */
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_stub, const char* name, int thread_limit,
                            void* tid, void* bid, void* block_dim, void* grid_dim, int* warp_size);

#if defined(WAYS_STATIC) || defined(WAYS_LIBRARY)
#define FN(name) name
#else
#define FN(name) p_##name
/* clang-format off */
#define FUNCTIONS(X)                                                                                                  \
    X(cudaMalloc) X(cudaMemsetAsync) X(cudaStreamCreateWithFlags) X(cudaStreamSynchronize) X(cudaMemcpy)             \
    X(cudaEventCreateWithFlags) X(cudaEventRecord) X(cudaStreamWaitEvent) X(cudaEventQuery) X(cudaLaunchHostFunc)    \
    X(cudaLaunchKernel) X(__cudaRegisterFatBinary) X(__cudaRegisterFatBinaryEnd) X(__cudaRegisterFunction)           \
    X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclAllReduce) X(ncclCommDestroy)
/* clang-format on */
#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)
#endif

static void check(const char* what, int result) {
    if (result != 0 && !(strcmp(what, "cudaEventQuery") == 0 && result == cudaErrorNotReady)) {
        printf("%s failed: %d\n", what, result);
        exit(1);
    }
}
#define CALL(name, ...) check(#name, (int)FN(name)(__VA_ARGS__))

enum { kCount = 16 };

static void add_one(void** args) {
    int* const data = *(int**)args[0];
    for (int i = 0; i < kCount; ++i) {
        data[i] += 1;
    }
}
static const SimgpuKernel kernel = {"ways_in_add_one", add_one, 1, {sizeof(int*)}};
static SimgpuFatBinary binary = {SIMGPU_FATBIN_MAGIC, 1, &kernel};
static const char stub = 0;

static void told(void* number) { *(int*)number += 1; }

static int work(void) {
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream, other;
    cudaEvent_t event;
    int* device;
    int host[kCount];
    int calls = 0;
    void** const registered = FN(__cudaRegisterFatBinary)(&binary);
    FN(__cudaRegisterFunction)(registered, &stub, NULL, kernel.name, -1, NULL, NULL, NULL, NULL, NULL);
    FN(__cudaRegisterFatBinaryEnd)(registered);
    CALL(ncclGetUniqueId, &id);
    CALL(ncclCommInitRank, &comm, 1, id, 0);
    CALL(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    CALL(cudaStreamCreateWithFlags, &other, cudaStreamNonBlocking);
    CALL(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    CALL(cudaMalloc, (void**)&device, sizeof host);
    for (int i = 0; i < 3; ++i) {
        void* arguments[] = {&device};
        const dim3 one = {1, 1, 1};
        CALL(cudaMemsetAsync, device, i, sizeof host, stream);
        CALL(cudaLaunchHostFunc, stream, told, &calls);
        CALL(cudaEventRecord, event, stream);
        CALL(cudaStreamWaitEvent, other, event, 0);
        CALL(cudaLaunchKernel, &stub, one, one, arguments, 0, other);
        CALL(ncclAllReduce, device, device, kCount, ncclInt32, ncclSum, comm, other);
        CALL(cudaEventQuery, event);
        CALL(cudaStreamSynchronize, other);
    }
    CALL(cudaMemcpy, host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d words of %#x, told %d times\n", kCount, (unsigned)host[kCount - 1], calls);
    CALL(ncclCommDestroy, comm);
    return 0;
}

#if defined(WAYS_LIBRARY)
__attribute__((visibility("default"))) int ways_in(void) { return work(); }
#elif defined(WAYS_STATIC)
int main(void) { return work(); }
#else
static void* must(void* found) {
    if (found == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char** argv) {
    if (argc < 3 || argc > 4) {
        return 2;
    }
    const int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0);
    void* const first = must(dlopen(argv[2], flags));
    if (argc == 3) {
        int (*whole)(void) = NULL;
        *(void**)&whole = must(dlsym(first, "ways_in"));
        return whole();
    }
    void* const second = must(dlopen(argv[3], flags));
#define LOOK_UP(name) *(void**)&p_##name = must(dlsym(strncmp(#name, "nccl", 4) == 0 ? first : second, #name));
    FUNCTIONS(LOOK_UP)
    return work();
}
#endif

/* One program, several ways to reach CUDA and NCCL, and the same work on each: prints what it computed.
 *
 *   ways_in FLAGS LIBNCCL LIBCUDART    the functions by dlsym from libraries opened with FLAGS (of local, deepbind)
 *   with WAYS_STATIC: linked with a static runtime, and libnccl as usual */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simgpu.h"

#define FUNCTIONS(X)                                                                                                  \
    X(cudaMalloc) X(cudaMemsetAsync) X(cudaStreamCreateWithFlags) X(cudaStreamSynchronize) X(cudaMemcpy)             \
    X(cudaEventCreateWithFlags) X(cudaEventRecord) X(cudaStreamWaitEvent) X(cudaEventQuery) X(cudaLaunchHostFunc)    \
    X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclAllReduce) X(ncclCommDestroy)

#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)

static void check(const char* what, int result) {
    if (result != 0 && !(strcmp(what, "cudaEventQuery") == 0 && result == cudaErrorNotReady)) {
        printf("%s failed: %d\n", what, result);
        exit(1);
    }
}
#define CALL(name, ...) check(#name, (int)p_##name(__VA_ARGS__))

static int find(int argc, char** argv) {
#ifdef WAYS_STATIC
    (void)argc, (void)argv;
#define TAKE(name) p_##name = &name;
    FUNCTIONS(TAKE)
#else
    if (argc != 4) {
        return 2;
    }
    const int flags = RTLD_NOW | RTLD_LOCAL | (strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : 0);
    void* const libraries[] = {dlopen(argv[2], flags), dlopen(argv[3], flags)};
    if (libraries[0] == NULL || libraries[1] == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
#define LOOK_UP(name)                                                                     \
    *(void**)&p_##name = dlsym(libraries[strncmp(#name, "nccl", 4) == 0 ? 0 : 1], #name); \
    if (p_##name == NULL) {                                                               \
        printf("%s\n", dlerror());                                                        \
        return 1;                                                                         \
    }
    FUNCTIONS(LOOK_UP)
#endif
    return 0;
}

static void told(void* number) { *(int*)number += 1; }

int main(int argc, char** argv) {
    const int status = find(argc, argv);
    if (status != 0) {
        return status;
    }
    enum { kCount = 16 };
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream, other;
    cudaEvent_t event;
    float* device;
    float host[kCount];
    int calls = 0;
    CALL(ncclGetUniqueId, &id);
    CALL(ncclCommInitRank, &comm, 1, id, 0);
    CALL(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    CALL(cudaStreamCreateWithFlags, &other, cudaStreamNonBlocking);
    CALL(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    CALL(cudaMalloc, (void**)&device, sizeof host);
    for (int i = 0; i < 3; ++i) {
        CALL(cudaMemsetAsync, device, i, sizeof host, stream);
        CALL(cudaLaunchHostFunc, stream, told, &calls);
        CALL(cudaEventRecord, event, stream);
        CALL(cudaStreamWaitEvent, other, event, 0);
        CALL(ncclAllReduce, device, device, kCount, ncclInt32, ncclSum, comm, other);
        CALL(cudaEventQuery, event);
        CALL(cudaStreamSynchronize, other);
    }
    CALL(cudaMemcpy, host, device, sizeof host, cudaMemcpyDeviceToHost);
    int words[kCount];
    memcpy(words, host, sizeof words);
    printf("%d words of %#x, told %d times\n", kCount, (unsigned)words[kCount - 1], calls);
    CALL(ncclCommDestroy, comm);
    return 0;
}

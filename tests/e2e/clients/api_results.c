/* Calls that fail without a GPU, one line of result each. It runs on the stand-ins and on NVIDIA's own libraries. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

#define SHOW(call) printf("%s = %d\n", #call, (int)(call))

int main(void) {
    int version = 0, count = -1;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    ncclComm_t comm = NULL;
    ncclComm_t comms[2] = {NULL, NULL};
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    char buffer[64];
    const char* error;
    setvbuf(stdout, NULL, _IOLBF, 0);

    SHOW(ncclGetVersion(&version));
    SHOW(ncclGetUniqueId(&id));
    SHOW(ncclCommInitRank(&comm, 1, id, 0));
    SHOW(ncclCommInitRank(&comm, 2, id, 5));
    SHOW(ncclCommInitRank(NULL, 1, id, 0));
    SHOW(ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    SHOW(ncclCommInitAll(comms, 2, NULL));
    printf("comm is %s\n", comm ? "set" : "null");
    SHOW(ncclGroupStart());
    SHOW(ncclGroupEnd());
    SHOW(ncclGroupEnd());
    SHOW(ncclAllReduce(buffer, buffer, 8, ncclFloat32, ncclSum, NULL, NULL));
    SHOW(ncclReduce(buffer, buffer, 8, ncclFloat32, ncclSum, 0, NULL, NULL));
    SHOW(ncclBroadcast(buffer, buffer, 8, ncclFloat32, 0, NULL, NULL));
    SHOW(ncclBcast(buffer, 8, ncclFloat32, 0, NULL, NULL));
    SHOW(ncclAllGather(buffer, buffer, 8, ncclInt8, NULL, NULL));
    SHOW(ncclReduceScatter(buffer, buffer, 8, ncclFloat16, ncclMax, NULL, NULL));
    SHOW(ncclSend(buffer, 8, ncclFloat32, 1, NULL, NULL));
    SHOW(ncclRecv(buffer, 8, ncclFloat32, 1, NULL, NULL));
    SHOW(ncclGroupStart());
    SHOW(ncclSend(buffer, 8, ncclFloat32, 1, NULL, NULL));
    SHOW(ncclGroupEnd());
    SHOW(ncclCommSplit(NULL, 0, 0, &comm, NULL));
    SHOW(ncclCommCount(NULL, &count));
    SHOW(ncclCommFinalize(NULL));
    SHOW(ncclCommDestroy(NULL));
    SHOW(ncclCommAbort(NULL));
    error = ncclGetErrorString(ncclInvalidArgument);
    printf("%s\n", error);

    SHOW(cudaGetDeviceCount(&count));
    SHOW(cudaSetDevice(0));
    SHOW(cudaStreamCreate(&stream));
    SHOW(cudaStreamSynchronize(NULL));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaEventCreate(&event));
    SHOW(cudaEventSynchronize(NULL));
    SHOW(cudaMemcpy(buffer, buffer, 8, cudaMemcpyHostToHost));
    SHOW(cudaGetLastError());
    SHOW(cudaPeekAtLastError());
    return 0;
}

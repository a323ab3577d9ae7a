/* A copy of NCCL of its own: built twice with different TINY_NUMBER, without what is newer than 2.18. Its results are
 * its number, so that a caller sees which copy it reached. */
#include <nccl.h>

#define TINY __attribute__((visibility("default")))

TINY ncclResult_t ncclGetVersion(int* version) {
    *version = 21800 + TINY_NUMBER;
    return ncclSuccess;
}

TINY ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream) {
    (void)send, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    *(int*)receive = TINY_NUMBER;
    return ncclSuccess;
}

TINY ncclResult_t ncclGroupStart(void) { return ncclSuccess; }
TINY ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }

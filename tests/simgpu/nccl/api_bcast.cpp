// NCCL API: ncclBcast, which calls ncclBroadcast through the PLT as the real one does. In a file of its own, so that
// the compiler cannot shorten the way.
#include "nvtx.h"
#include "vendor.h"

NCCL_EXPORT(ncclResult_t, ncclBcast,
            (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
    SIMGPU_NVTX_RANGE("ncclBcast")
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

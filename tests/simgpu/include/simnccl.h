// What the stand-in libnccl.so.2 exports beyond NCCL's API: device and network errors on demand. Test programs call it
// when their fault script says so. Return values are ncclResult_t.
#ifndef SIMNCCL_H
#define SIMNCCL_H

#ifdef __cplusplus
extern "C" {
#endif

struct ncclComm;

// The next operation of this communicator starts on all members and never finishes on any.
int simgpuNcclStuckNext(struct ncclComm* comm);

// The same, but only one channel of it is stuck: the others finish, which a profiler plugin gets to hear.
int simgpuNcclStuckChannelNext(struct ncclComm* comm);

// ncclCommGetAsyncError answers this from now on (for example ncclRemoteError).
int simgpuNcclSetAsyncError(struct ncclComm* comm, int error);

#ifdef __cplusplus
}
#endif
#endif

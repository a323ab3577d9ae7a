// nccl.h, and declarations of the types that an older nccl.h does not have yet: our table names them only as pointers.
#pragma once

#include <nccl.h>

#if NCCL_VERSION_CODE < 22203
struct ncclSimInfo;
using ncclSimInfo_t = ncclSimInfo;
#endif
#if NCCL_VERSION_CODE < 22703
struct ncclWindow;
using ncclWindow_t = ncclWindow*;
#endif
#if NCCL_VERSION_CODE < 22902
struct ncclWaitSignalDesc;
using ncclWaitSignalDesc_t = ncclWaitSignalDesc;
#endif
// The peer of a wait for one, else -1, and how many signals: the descriptor begins with the number and the peer, which
// an older nccl.h does not say.
inline int waited_peer(int count, const void* waits) {
    return count == 1 && waits != nullptr ? static_cast<const int*>(waits)[1] : -1;
}
inline size_t waited_signals(int count, const void* waits) {
    return static_cast<size_t>(count == 1 && waits != nullptr ? static_cast<const int*>(waits)[0] : count);
}
#if NCCL_VERSION_CODE < 23102
struct ncclCollConfig;
using ncclCollConfig_t = ncclCollConfig;
#endif

// Types of the device API (2.28), whose header we do not need.
struct ncclDevComm;
struct ncclDevCommRequirements;
using ncclDevComm_t = ncclDevComm;
using ncclDevCommRequirements_t = ncclDevCommRequirements;

// NCCL API: the life of a communicator after its creation, and questions about it.
#include <cstring>
#include <thread>

#include "comm.h"
#include "nvtx.h"
#include "plan.h"

using namespace simgpu;

namespace {

void wait_until_quiet(const CoreRef& core) {
    std::unique_lock lock(core->lock);
    core->plan_ended.wait(lock, [&] { return core->plans_queued == 0; });
}

// Operations that run see the flag; those still queued end as soon as their turn comes.
void stop_operations(const CoreRef& core) {
    core->abort = true;
    std::unique_lock lock(core->lock);
    core->plan_ended.wait(lock, [&] { return core->plans_running == 0; });
}

// The state that a member sees once `work` is over; nonblocking communicators do not wait for it.
template <typename Work>
ncclResult_t settle(const CoreRef& core, Work work) {
    if (core->blocking) {
        work();
        return ncclSuccess;
    }
    core->async_result = ncclInProgress;
    std::thread([core, work] {
        work();
        core->async_result = ncclSuccess;
    }).detach();
    return ncclInProgress;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
    SIMGPU_NVTX_RANGE("ncclCommFinalize")
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    SIMGPU_TRY(usable(comm, core));
    if (core->finalized || core->revoked) {
        return ncclInvalidArgument;
    }
    core->finalized = true;
    return settle(core, [core] { wait_until_quiet(core); });
}

NCCL_EXPORT(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
    SIMGPU_NVTX_RANGE("ncclCommDestroy")
    if (!comm) {
        return ncclSuccess;
    }
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    // Blocks while operations are in flight: a hung one makes this hang too, as in reality.
    wait_until_quiet(core);
    profile_comm_closed(*core);
    drop_handle(comm);
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
    SIMGPU_NVTX_RANGE("ncclCommAbort")
    if (!comm) {
        return ncclSuccess;
    }
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    stop_operations(core);
    profile_comm_closed(*core);
    drop_handle(comm);
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags)) {
    SIMGPU_NVTX_RANGE("ncclCommRevoke")
    const CoreRef core = find_core(comm);
    if (!core || flags != NCCL_REVOKE_DEFAULT || core->finalized || core->revoked) {
        return ncclInvalidArgument;
    }
    core->revoked = true;
    core->finalized = true;
    return settle(core, [core] { stop_operations(core); });
}

NCCL_EXPORT(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags)) {
    const CoreRef core = find_core(comm);
    if (!core || flags != NCCL_SUSPEND_MEM) {
        return ncclInvalidArgument;
    }
    wait_until_quiet(core);
    return core->suspended.exchange(true) ? ncclInvalidUsage : ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommResume, (ncclComm_t comm)) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    return core->suspended.exchange(false) ? ncclSuccess : ncclInvalidUsage;
}

NCCL_EXPORT(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)) {
    const CoreRef core = find_core(comm);
    if (!core || !value || stat > ncclStatGpuMemTotal) {
        return ncclInvalidArgument;
    }
    *value = stat == ncclStatGpuMemSuspended ? core->suspended.load() : 0;  // it holds no device memory
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
    const CoreRef core = find_core(comm);
    if (!core || !error) {
        return ncclInvalidArgument;
    }
    *error = core->state();
    return ncclSuccess;
}

namespace {

ncclResult_t answer(ncclComm_t comm, int* out, int Core::*field) {
    const CoreRef core = find_core(comm);
    if (!core || !out) {
        return ncclInvalidArgument;
    }
    SIMGPU_TRY(core->revoked ? ncclSuccess : usable(comm, core));
    *out = (*core).*field;
    return ncclSuccess;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
    return answer(comm, count, &Core::ranks);
}
NCCL_EXPORT(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
    return answer(comm, device, &Core::device);
}
NCCL_EXPORT(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
    return answer(comm, rank, &Core::rank);
}

NCCL_EXPORT(const char*, ncclGetErrorString, (ncclResult_t result)) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        case ncclTimeout: return "operation timed out";
        default: return "unknown result code";
    }
}

NCCL_EXPORT(const char*, ncclGetLastError, (ncclComm_t)) {
    thread_local std::string text;
    text = last_warning();
    return text.c_str();
}

// The fault script's hands inside the library (see simnccl.h); not part of NCCL.
#include "simnccl.h"

namespace {

int make_next_stuck(ncclComm_t comm, Stuck how) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    core->inject_stuck = static_cast<int>(how);
    return ncclSuccess;
}

}  // namespace

#define SIMGPU_EXPORT extern "C" __attribute__((visibility("default")))
SIMGPU_EXPORT int simgpuNcclStuckNext(ncclComm_t comm) { return make_next_stuck(comm, Stuck::kWhole); }
SIMGPU_EXPORT int simgpuNcclStuckChannelNext(ncclComm_t comm) { return make_next_stuck(comm, Stuck::kOneChannel); }

extern "C" __attribute__((visibility("default"))) int simgpuNcclSetAsyncError(ncclComm_t comm, int error) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    core->async_result = error;
    return ncclSuccess;
}

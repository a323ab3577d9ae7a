// NCCL API: groups, send and receive, one-sided operations and their windows.
#include "group.h"
#include "nvtx.h"
#include "reduce.h"

using namespace simgpu;

NCCL_EXPORT(ncclResult_t, ncclGroupStart, ()) {
    SIMGPU_NVTX_RANGE("ncclGroupStart")
    return group_begin();
}
NCCL_EXPORT(ncclResult_t, ncclGroupEnd, ()) {
    SIMGPU_NVTX_RANGE("ncclGroupEnd")
    return group_end();
}

NCCL_EXPORT(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info)) {
    float estimated_us = 0;
    const ncclResult_t result = group_simulate_end(&estimated_us);
    if (result == ncclSuccess && info) {
        info->estimatedTime = estimated_us;
    }
    return result;
}

namespace {

ncclResult_t check_peer(ncclComm_t comm, int peer, CoreRef* out) {
    *out = find_core(comm);
    if (!*out) {
        return ncclInvalidArgument;
    }
    SIMGPU_TRY(usable(comm, *out));
    if ((*out)->revoked || (*out)->finalized || (*out)->suspended) {
        return ncclInvalidUsage;
    }
    return peer >= 0 && peer < (*out)->ranks ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t transfer(bool is_send, const void* from, void* to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return grouped([&] {
        CoreRef core;
        const ncclResult_t result = check_peer(comm, peer, &core);
        if (result != ncclSuccess || element_bytes(type) == 0) {
            return result != ncclSuccess ? result : ncclInvalidArgument;
        }
        const TaskCall call{true, is_send ? "Send" : "Recv", count, type, peer, stream, group_depth()};
        group_plan(core, stream, OpKind::kSendRecv)
            .transfers.push_back({is_send, peer, static_cast<const unsigned char*>(from),
                                  static_cast<unsigned char*>(to), count * element_bytes(type), count, type,
                                  profile_call(*core, call)});
        return ncclSuccess;
    });
}

ncclResult_t add_signal(SignalOp op, ncclComm_t comm, cudaStream_t stream) {
    return grouped([&] {
        CoreRef core;
        const ncclResult_t result = check_peer(comm, op.peer, &core);
        if (result == ncclSuccess) {
            group_plan(core, stream, op.kind).signals.push_back(op);
        }
        return result;
    });
}

// A window is its ordinal in the communicator: registration is collective and in the same order on all members.
uint64_t window_number(ncclWindow_t window) { return reinterpret_cast<uint64_t>(window) >> 12; }
ncclWindow_t window_handle(uint64_t number) { return reinterpret_cast<ncclWindow_t>(number << 12); }

}  // namespace

NCCL_EXPORT(ncclResult_t, ncclSend,
            (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
    SIMGPU_NVTX_RANGE("ncclSend")
    return transfer(true, from, nullptr, count, type, peer, comm, stream);
}

NCCL_EXPORT(ncclResult_t, ncclRecv,
            (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
    SIMGPU_NVTX_RANGE("ncclRecv")
    return transfer(false, nullptr, to, count, type, peer, comm, stream);
}

NCCL_EXPORT(ncclResult_t, ncclPutSignal,
            (const void* from, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset, int,
             int, unsigned int, ncclComm_t comm, cudaStream_t stream)) {
    return add_signal({OpKind::kPutSignal, peer, static_cast<const unsigned char*>(from), count * element_bytes(type),
                       window_number(window), offset, 0},
                      comm, stream);
}

NCCL_EXPORT(ncclResult_t, ncclSignal, (int peer, int, int, unsigned int, ncclComm_t comm, cudaStream_t stream)) {
    return add_signal({OpKind::kSignal, peer, nullptr, 0, 0, 0, 0}, comm, stream);
}

NCCL_EXPORT(ncclResult_t, ncclWaitSignal,
            (int count, ncclWaitSignalDesc_t* waits, ncclComm_t comm, cudaStream_t stream)) {
    if (count < 0 || (count && !waits)) {
        return ncclInvalidArgument;
    }
    return grouped([&] {
        ncclResult_t result = ncclSuccess;
        for (int i = 0; i < count && result == ncclSuccess; ++i) {
            result = add_signal(
                {OpKind::kWaitSignal, waits[i].peer, nullptr, 0, 0, 0, static_cast<uint32_t>(waits[i].opCnt)}, comm,
                stream);
        }
        return result;
    });
}

NCCL_EXPORT(ncclResult_t, ncclCommWindowRegister,
            (ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int)) {
    const CoreRef core = find_core(comm);
    if (!core || !window || !buffer) {
        return ncclInvalidArgument;
    }
    std::lock_guard lock(core->lock);
    const uint64_t number = core->next_window++;
    core->windows[number] = {static_cast<unsigned char*>(buffer), bytes};
    *window = window_handle(number);
    return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window)) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    std::lock_guard lock(core->lock);
    return core->windows.erase(window_number(window)) ? ncclSuccess : ncclInvalidArgument;
}

NCCL_EXPORT(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void** out)) {
    const CoreRef core = find_core(comm);
    if (!core || !out) {
        return ncclInvalidArgument;
    }
    std::lock_guard lock(core->lock);
    auto found = core->windows.find(window_number(window));
    *out = found == core->windows.end() ? nullptr : found->second.first;
    return *out ? ncclSuccess : ncclInvalidArgument;
}

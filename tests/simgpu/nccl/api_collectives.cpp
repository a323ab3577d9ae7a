// NCCL API: collectives, in the plain and in the Config form.
#include "group.h"
#include "nvtx.h"
#include "reduce.h"

using namespace simgpu;

namespace {

struct Call {
    OpKind kind;
    const void* send;
    void* recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t redop = ncclSum;
    int root = 0;
};

bool reduces(OpKind kind) {
    return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

struct Peers {
    Plan& plan;
    const Call& call;
    CUstream stream;

    void add(bool is_send, int peer, const void* from, void* to) {
        const size_t bytes = call.count * element_bytes(call.type);
        const TaskCall task{true, is_send ? "Send" : "Recv", call.count, call.type, peer, stream, group_depth()};
        plan.transfers.push_back({is_send, peer, static_cast<const unsigned char*>(from),
                                  static_cast<unsigned char*>(to), bytes, call.count, call.type,
                                  profile_call(*plan.core, task)});
    }
};

// NCCL makes these of sends and receives, and so do we.
bool add_as_transfers(Plan& plan, const Core& core, const Call& call, CUstream stream) {
    Peers peers{plan, call, stream};
    const size_t bytes = call.count * element_bytes(call.type);
    auto* recv = static_cast<char*>(call.recv);
    const auto* send = static_cast<const char*>(call.send);
    const bool all = call.kind == OpKind::kAlltoAll;
    const bool gather = call.kind == OpKind::kGather;
    if (!all && !gather && call.kind != OpKind::kScatter) {
        return false;
    }
    const bool is_root = core.rank == call.root;
    for (int peer = 0; peer < core.ranks; ++peer) {
        const size_t offset = bytes * static_cast<size_t>(peer);
        if (all || (gather ? peer == call.root : is_root)) {
            peers.add(true, peer, gather ? send : send + offset, nullptr);
        }
        if (all || (gather ? is_root : peer == call.root)) {
            peers.add(false, peer, nullptr, call.kind == OpKind::kScatter ? recv : recv + offset);
        }
    }
    return true;
}

ncclResult_t check_config(const ncclCollConfig_t* config) {
    return !config || config->magic == NCCL_API_MAGIC ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t enqueue(const Call& call, ncclComm_t comm, cudaStream_t stream) {
    const CoreRef core = find_core(comm);
    if (!core) {
        return ncclInvalidArgument;
    }
    SIMGPU_TRY(usable(comm, core));
    if (core->revoked || core->finalized || core->suspended) {
        return ncclInvalidUsage;
    }
    if (element_bytes(call.type) == 0 || call.root < 0 || call.root >= core->ranks) {
        warn("a call with an invalid datatype or root");
        return ncclInvalidArgument;
    }
    CollectiveOp op{call.kind,
                    static_cast<const unsigned char*>(call.send),
                    static_cast<unsigned char*>(call.recv),
                    call.count,
                    call.type,
                    call.redop,
                    call.root,
                    false,
                    {},
                    {}};
    if (reduces(call.kind) && (call.redop < ncclSum || call.redop >= ncclNumOps)) {
        std::lock_guard lock(core->lock);
        auto found = core->scalars.find(call.redop);
        if (found == core->scalars.end() || found->second.type != call.type) {
            return ncclInvalidArgument;
        }
        op.has_scalar = true;
        op.scalar = found->second;
    }
    if (call.count == 0) {
        return ncclSuccess;
    }
    Plan& plan = group_plan(core, stream, call.kind);
    if (!add_as_transfers(plan, *core, call, stream)) {
        op.profile =
            profile_call(*core, {false, op_word(call.kind), call.count, call.type, call.root, stream, group_depth()});
        plan.collectives.push_back(op);
    }
    return ncclSuccess;
}

uint64_t hash_of(ncclComm_t comm) {
    const CoreRef core = find_core(comm);
    return core ? core->hash : 0;
}

ncclResult_t run(const Call& call, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config = nullptr) {
    return grouped([&] {
        const ncclResult_t result = check_config(config);
        return result != ncclSuccess ? result : enqueue(call, comm, stream);
    });
}

}  // namespace

// One row makes both forms: name, parameters, the call they mean.
#define PARAMETERS(...) __VA_ARGS__
#define COLLECTIVE(name, parameters, ...)                                                             \
    NCCL_EXPORT(ncclResult_t, nccl##name, (parameters, ncclComm_t comm, cudaStream_t stream)) {       \
        SIMGPU_NVTX_RANGE("nccl" #name, hash_of(comm), count* element_bytes(type))                    \
        return run(Call{OpKind::k##name, __VA_ARGS__}, comm, stream);                                 \
    }                                                                                                 \
    NCCL_EXPORT(ncclResult_t, nccl##name##Config,                                                     \
                (parameters, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) { \
        SIMGPU_NVTX_RANGE("nccl" #name "Config", hash_of(comm), count* element_bytes(type))           \
        return run(Call{OpKind::k##name, __VA_ARGS__}, comm, stream, config);                         \
    }

#define BUFFERS const void *send, void *recv, size_t count, ncclDataType_t type

COLLECTIVE(AllReduce, PARAMETERS(BUFFERS, ncclRedOp_t op), send, recv, count, type, op)
COLLECTIVE(Broadcast, PARAMETERS(BUFFERS, int root), send, recv, count, type, ncclSum, root)
COLLECTIVE(Reduce, PARAMETERS(BUFFERS, ncclRedOp_t op, int root), send, recv, count, type, op, root)
COLLECTIVE(AllGather, PARAMETERS(BUFFERS), send, recv, count, type)
COLLECTIVE(ReduceScatter, PARAMETERS(BUFFERS, ncclRedOp_t op), send, recv, count, type, op)
COLLECTIVE(AlltoAll, PARAMETERS(BUFFERS), send, recv, count, type)
COLLECTIVE(Gather, PARAMETERS(BUFFERS, int root), send, recv, count, type, ncclSum, root)
COLLECTIVE(Scatter, PARAMETERS(BUFFERS, int root), send, recv, count, type, ncclSum, root)

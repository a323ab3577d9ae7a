// What one launch of a communicator does on the device: its collectives in order, then its sends and receives together.
#pragma once

#include <memory>
#include <vector>

#include "comm.h"
#include "profiler.h"

namespace simgpu {

// Collectives with an exchange of their own. The rest (AlltoAll, Gather, Scatter) is made of sends and receives.
#define SIMGPU_OP_KINDS(X) \
    X(AllReduce)           \
    X(Broadcast)           \
    X(Reduce)              \
    X(AllGather)           \
    X(ReduceScatter)       \
    X(AlltoAll)            \
    X(Gather)              \
    X(Scatter)             \
    X(SendRecv)            \
    X(PutSignal)           \
    X(Signal)              \
    X(WaitSignal)

enum class OpKind : int {
#define ROW(name) k##name,
    SIMGPU_OP_KINDS(ROW)
#undef ROW
        kCount
};

struct CollectiveOp {
    OpKind kind;
    const unsigned char* send;
    unsigned char* recv;
    size_t count;  // as the API call gave it
    ncclDataType_t type;
    ncclRedOp_t redop = ncclSum;
    int root = 0;
    bool has_scalar = false;
    PreMulScalar scalar;
    TaskProfile profile = {};
};

struct TransferOp {
    bool is_send;
    int peer;
    const unsigned char* from;
    unsigned char* to;
    size_t bytes;
    size_t count;
    ncclDataType_t type;
    TaskProfile profile = {};
};

struct SignalOp {
    OpKind kind;
    int peer;
    const unsigned char* from;
    size_t bytes;
    uint64_t window;
    size_t window_offset;
    uint32_t awaited;
};

struct Plan {
    CoreRef core;
    OpKind kind = OpKind::kAllReduce;  // names the kernel
    std::vector<CollectiveOp> collectives;
    std::vector<TransferOp> transfers;
    std::vector<SignalOp> signals;
    bool captured = false;
    void* launch_event = nullptr;  // the profiler plugin's

    // On the stream's worker; `cancelled` is the device's own end.
    void run(const int32_t* cancelled);
};

const char* op_word(OpKind kind);  // as in NCCL's own messages
// Bytes that each contributing member brings.
size_t contribution_bytes(const CollectiveOp& op, int ranks);

// Puts the plan on its stream; `streams` are all the streams that its calls named, the first one carries it.
ncclResult_t launch(std::unique_ptr<Plan> plan, const std::vector<CUstream>& streams);

}  // namespace simgpu

#include "rank_comm.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "check.h"
#include "markers.h"
#include "simgpu.h"
#include "simnccl.h"

namespace simgpu {

namespace {

template <typename T>
struct Word {
    const char* word;
    T value;
};

template <typename T, size_t N>
T lookup(const Word<T> (&table)[N], const std::string& word) {
    for (const auto& row : table) {
        if (word == row.word) {
            return row.value;
        }
    }
    die(kExitUsage, "fault script: unknown word '%s'", word.c_str());
}

constexpr Word<Request::Kind> kKinds[] = {{"allreduce", Request::kAllReduce},
                                          {"broadcast", Request::kBroadcast},
                                          {"reduce", Request::kReduce},
                                          {"allgather", Request::kAllGather},
                                          {"reducescatter", Request::kReduceScatter}};
constexpr Word<ncclRedOp_t> kOps[] = {
    {"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}, {"avg", ncclAvg}};
constexpr Word<ncclDataType_t> kTypes[] = {
    {"int8", ncclInt8},       {"uint8", ncclUint8},      {"int32", ncclInt32},     {"uint32", ncclUint32},
    {"int64", ncclInt64},     {"uint64", ncclUint64},    {"float16", ncclFloat16}, {"float32", ncclFloat32},
    {"float64", ncclFloat64}, {"bfloat16", ncclBfloat16}};

// A rank stuck in its own code: visible on its stack by this function's name.
[[gnu::noinline]] void stuck_in_user_code() {
    volatile uint64_t turns = 0;
    for (;;) {
        turns = turns + 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// Likewise, for the thread that carries out a stream's host functions.
extern "C" [[gnu::noinline]] void simgpu_hang_host_function(void*) {
    for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// The stream waits for another stream, which never gets past a kernel. Both may be part of a capture.
void wait_for_hung_stream(cudaStream_t stream) {
    cudaStream_t other;
    cudaEvent_t fork, join;
    CUDA_CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(fork, stream));
    CUDA_CHECK(cudaStreamWaitEvent(other, fork, 0));
    CUDA_CHECK(simgpu_launch_hang(other));
    CUDA_CHECK(cudaEventRecord(join, other));
    CUDA_CHECK(cudaStreamWaitEvent(stream, join, 0));
}

}  // namespace

void RankState::act(const Fault& fault) {
    say("fault: %s", fault.text.c_str());
    switch (fault.action) {
        case FaultAction::kSleep: std::this_thread::sleep_for(std::chrono::milliseconds(fault.ms)); break;
        case FaultAction::kSpin: stuck_in_user_code(); break;
        case FaultAction::kKill: raise(SIGKILL); break;
        case FaultAction::kStop: raise(SIGSTOP); break;
        case FaultAction::kSegv: raise(SIGSEGV); break;
        case FaultAction::kExit: exit(fault.code);  // with destructors, as a program that leaves its loop early
        case FaultAction::kDump: titan_dump("fault script"); break;
        default: break;
    }
}

void RankState::at_step_start() {
    for (const Fault* fault : faults.at({FaultPlace::kAnywhere, rank, "", step, 0, 0})) {
        act(*fault);
    }
}

bool RankComm::may_create() {
    for (const Fault* fault : state_.faults.at({FaultPlace::kCreation, state_.rank, membership_.name, 0, 0, 0})) {
        state_.act(*fault);
        return false;
    }
    return true;
}

void RankComm::attach(ncclComm_t comm) {
    comm_ = comm;
    if (comm) {
        titan_comm_name(comm, membership_.name.c_str());
    }
}

void RankComm::issue(const Request& original, cudaStream_t stream) {
    Request request = original;
    bool skip = false, extra = false, swap = false, captured = false;
    std::string swap_with;
    Request additional = original;
    const FaultPoint point{FaultPlace::kOp, state_.rank, membership_.name, state_.step, nth_++, seq_++};
    for (const Fault* fault : state_.faults.at(point)) {
        switch (fault->action) {
            case FaultAction::kSkip: skip = true; break;
            case FaultAction::kExtra:
                extra = true;
                additional.kind = fault->kind.empty() ? Request::kAllReduce : lookup(kKinds, fault->kind);
                break;
            case FaultAction::kOther: request.kind = lookup(kKinds, fault->kind); break;
            case FaultAction::kCount:
                request.count = static_cast<size_t>(static_cast<double>(request.count) * fault->factor);
                break;
            case FaultAction::kDtype: request.type = lookup(kTypes, fault->type); break;
            case FaultAction::kRedop: request.op = lookup(kOps, fault->op); break;
            case FaultAction::kRoot: request.peer = fault->root % membership_.size; break;
            case FaultAction::kSwap:
                swap = true;
                swap_with = fault->with;
                break;
            case FaultAction::kHangKernel: CUDA_CHECK(simgpu_launch_hang(stream)); break;
            case FaultAction::kHangCopy:
                CUDA_CHECK(cudaMemcpyAsync(scratch_, SIMGPU_STALLED_MEMORY, 4096, cudaMemcpyHostToDevice, stream));
                break;
            case FaultAction::kHangEvent: wait_for_hung_stream(stream); break;
            case FaultAction::kHangHost:
                CUDA_CHECK(cudaLaunchHostFunc(stream, simgpu_hang_host_function, nullptr));
                break;
            case FaultAction::kGraphEager: captured = true; break;
            case FaultAction::kStuckChannel: NCCL_CHECK(simgpuNcclStuckChannelNext(comm_)); break;
            case FaultAction::kStuck: NCCL_CHECK(simgpuNcclStuckNext(comm_)); break;
            case FaultAction::kAsyncError: NCCL_CHECK(simgpuNcclSetAsyncError(comm_, fault->result)); break;
            default: state_.act(*fault); continue;
        }
        say("fault: %s", fault->text.c_str());
        if (fault->action == FaultAction::kOther || fault->action == FaultAction::kCount ||
            fault->action == FaultAction::kDtype) {
            // The altered operation may need more room than its buffers have.
            request.send = request.recv = scratch_;
        }
    }
    if (extra) {
        additional.send = additional.recv = scratch_;
        additional.peer = 0;
        call(additional, stream);
    }
    if (swap) {
        state_.held = [this, request, stream] { call(request, stream); };
        state_.held_for = swap_with;
    } else if (captured) {
        capture_only(request, stream);
    } else if (!skip) {
        call_and_release(request, stream);
    }
}

void RankComm::call_and_release(const Request& request, cudaStream_t stream) {
    call(request, stream);
    if (state_.held && state_.held_for == membership_.name) {
        auto held = std::move(state_.held);
        state_.held = nullptr;
        held();
    }
}

bool RankComm::fault_among(int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
        if (!state_.faults.at({FaultPlace::kOp, state_.rank, membership_.name, state_.step, nth_ + i, seq_ + i})
                 .empty()) {
            return true;
        }
    }
    return false;
}

void RankComm::advance(int64_t count) {
    nth_ += count;
    seq_ += count;
}

// The operation goes into a graph that is never launched.
void RankComm::capture_only(const Request& request, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    call(request, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

void RankComm::call(const Request& r, cudaStream_t stream) {
    switch (r.kind) {
        case Request::kAllReduce:
            NCCL_CHECK(ncclAllReduce(r.send, r.recv, r.count, r.type, r.op, comm_, stream));
            break;
        case Request::kBroadcast:
            NCCL_CHECK(ncclBroadcast(r.send, r.recv, r.count, r.type, r.peer, comm_, stream));
            break;
        case Request::kReduce:
            NCCL_CHECK(ncclReduce(r.send, r.recv, r.count, r.type, r.op, r.peer, comm_, stream));
            break;
        case Request::kAllGather: NCCL_CHECK(ncclAllGather(r.send, r.recv, r.count, r.type, comm_, stream)); break;
        case Request::kReduceScatter:
            NCCL_CHECK(ncclReduceScatter(r.send, r.recv, r.count, r.type, r.op, comm_, stream));
            break;
        case Request::kSend: NCCL_CHECK(ncclSend(r.send, r.count, r.type, r.peer, comm_, stream)); break;
        case Request::kRecv: NCCL_CHECK(ncclRecv(r.recv, r.count, r.type, r.peer, comm_, stream)); break;
    }
}

}  // namespace simgpu

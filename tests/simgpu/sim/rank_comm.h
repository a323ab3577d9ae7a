// A communicator of the training program. Every operation passes the fault script on its way to NCCL.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>

#include "fault_script.h"
#include "layout.h"

namespace simgpu {

struct Request {
    enum Kind { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSend, kRecv };
    Kind kind;
    const void* send;
    void* recv;
    size_t count;
    ncclDataType_t type = ncclFloat32;
    ncclRedOp_t op = ncclSum;
    int peer = 0;  // or root
};

// What a rank is doing now, shared by its communicators.
struct RankState {
    int rank = 0;
    int64_t step = -1;
    FaultScript faults;
    // An operation that waits for another communicator's to go first (swap).
    std::function<void()> held;
    std::string held_for;

    // Faults that need no operation: sleep, spin, kill, ...
    void act(const Fault& fault);
    void at_step_start();
};

class RankComm {
  public:
    RankComm(RankState& state, Membership membership, void* scratch)
        : state_(state), membership_(std::move(membership)), scratch_(scratch) {}

    // False when the fault script says that this rank never creates it.
    bool may_create();
    void attach(ncclComm_t comm);

    void issue(const Request& request, cudaStream_t stream);
    // Operations of one group; each is a point for faults.
    void begin_step() { nth_ = 0; }

    // Replays of captured operations: what would strike one of the next `count` operations in this step, and counting
    // them without issuing them.
    bool fault_among(int64_t count) const;
    void advance(int64_t count);
    int64_t issued_in_step() const { return nth_; }

    ncclComm_t get() const { return comm_; }
    const Membership& membership() const { return membership_; }
    bool usable() const { return comm_ != nullptr && membership_.size > 1; }

  private:
    void call(const Request& request, cudaStream_t stream);
    void call_and_release(const Request& request, cudaStream_t stream);
    void capture_only(const Request& request, cudaStream_t stream);

    RankState& state_;
    Membership membership_;
    void* scratch_;  // device memory that altered operations may use, large enough for any of them
    ncclComm_t comm_ = nullptr;
    int64_t nth_ = 0;
    int64_t seq_ = 0;
};

// Large enough for what a fault makes of an operation of `bytes` per rank.
inline size_t scratch_bytes(size_t bytes, int world) { return bytes * 16 * static_cast<size_t>(world); }

}  // namespace simgpu

// What a process's NCCL calls of one step add up to, in all and by communicator and operation: of the collectives ring
// before it goes round. And between which values readings of the machine were, of the ring of these.
#pragma once

#include <cstdint>

#include "formats/layout/enums.h"
#include "formats/layout/ring_layout.h"

namespace titan::format {

// Of calls that move data. Times are ticks.
struct StepSum {
    int64_t step;
    uint64_t calls;
    uint64_t bytes;         // elements as passed, times their size
    uint64_t host_ticks;    // in the calls, as far as they returned
    uint64_t device_ticks;  // from start to end on the GPU, of those that were seen to start before they had ended
    uint64_t timed_calls;   // those
    uint64_t first_ticks;   // the first was entered
    uint64_t last_ticks;    // the last one returned or ended, whichever came later
};

// Calls of one operation on one communicator. What exceeds kJournalStepCalls of a step is added up under no operation.
struct StepCalls {
    int64_t step;
    uint64_t communicator_id;  // 0: several, or unknown
    OpKind kind;               // 0: several
    uint64_t calls;
    uint64_t bytes;
    uint64_t host_ticks;
    uint64_t device_ticks;
    uint64_t timed_calls;
    uint64_t longest_ticks;  // of the longest call: on the GPU where it was seen there, else of the host
    uint64_t first_ticks;    // the first was entered
    uint64_t after_ticks;    // how much later they were entered than it, together; modulo 2^64

    bool is_of(uint64_t id, OpKind of_kind) const { return communicator_id == id && kind == of_kind; }
    // They were entered, on average. A rank that is later here than others comes late to these calls.
    uint64_t entered_ticks() const {
        return calls == 0 || calls > INT64_MAX ? first_ticks
                                               : first_ticks + static_cast<uint64_t>(static_cast<int64_t>(after_ticks) /
                                                                                     static_cast<int64_t>(calls));
    }
};

struct StepCommunicator {
    uint64_t id;
    int32_t size;   // -1 unknown
    uint32_t name;  // text, 0 none
};

// Readings of one name that differ from the ones before, over some steps.
struct HealthExtremes {
    uint32_t name;  // text; 0: of several, which exceed kJournalHealthNames: these have no values
    uint64_t readings;
    double least;
    double greatest;
    int64_t least_step;  // in which it was read first
    int64_t greatest_step;
    int64_t first_step;  // of the readings
    int64_t last_step;
    uint64_t first_ticks;
    uint64_t last_ticks;
};

// What was captured runs later, with entries of its own.
constexpr bool counts_in_steps(const CollectiveEntry& call) {
    return moves_data(call.kind) && (call.flags & kCaptured) == 0;
}

constexpr uint64_t host_ticks_of(const CollectiveEntry& call) {
    return call.returned_ticks > call.entered_ticks ? call.returned_ticks - call.entered_ticks : 0;
}
// 0: not seen. Start and end are equal where the start was only noticed together with the end.
constexpr uint64_t device_ticks_of(const CollectiveEntry& call) {
    return call.gpu_started_ticks != 0 && call.gpu_finished_ticks > call.gpu_started_ticks
               ? call.gpu_finished_ticks - call.gpu_started_ticks
               : 0;
}

template <typename Sum>
constexpr void add_amounts(Sum& sum, const CollectiveEntry& call) {
    const uint64_t device_ticks = device_ticks_of(call);
    ++sum.calls;
    sum.bytes += call.count * datatype_size_bytes(call.datatype);
    sum.host_ticks += host_ticks_of(call);
    sum.device_ticks += device_ticks;
    sum.timed_calls += device_ticks != 0 ? 1 : 0;
}

template <typename Sum>
constexpr void add_amounts_of(Sum& sum, const Sum& other) {
    sum.calls += other.calls;
    sum.bytes += other.bytes;
    sum.host_ticks += other.host_ticks;
    sum.device_ticks += other.device_ticks;
    sum.timed_calls += other.timed_calls;
}

constexpr void add_call(StepCalls& sum, const CollectiveEntry& call) {
    if (!counts_in_steps(call)) {
        return;
    }
    sum.first_ticks = sum.calls == 0 ? call.entered_ticks : sum.first_ticks;
    sum.after_ticks += call.entered_ticks - sum.first_ticks;
    add_amounts(sum, call);
    const uint64_t device_ticks = device_ticks_of(call);
    const uint64_t ticks = device_ticks != 0 ? device_ticks : host_ticks_of(call);
    sum.longest_ticks = ticks > sum.longest_ticks ? ticks : sum.longest_ticks;
}

constexpr void add_sum(StepCalls& sum, const StepCalls& other) {
    sum.after_ticks += other.after_ticks + other.calls * (other.first_ticks - sum.first_ticks);
    add_amounts_of(sum, other);
    sum.longest_ticks = other.longest_ticks > sum.longest_ticks ? other.longest_ticks : sum.longest_ticks;
}

constexpr void add_call(StepSum& sum, const CollectiveEntry& call) {
    if (!counts_in_steps(call)) {
        return;
    }
    add_amounts(sum, call);
    const uint64_t ended =
        call.returned_ticks > call.gpu_finished_ticks ? call.returned_ticks : call.gpu_finished_ticks;
    sum.first_ticks =
        sum.first_ticks == 0 || call.entered_ticks < sum.first_ticks ? call.entered_ticks : sum.first_ticks;
    sum.last_ticks = ended > sum.last_ticks ? ended : sum.last_ticks;
}

// Two parts of the same step.
constexpr void add_sum(StepSum& sum, const StepSum& other) {
    add_amounts_of(sum, other);
    sum.first_ticks = sum.first_ticks == 0 || (other.first_ticks != 0 && other.first_ticks < sum.first_ticks)
                          ? other.first_ticks
                          : sum.first_ticks;
    sum.last_ticks = other.last_ticks > sum.last_ticks ? other.last_ticks : sum.last_ticks;
}

}  // namespace titan::format

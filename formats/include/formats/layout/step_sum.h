// What a process's NCCL calls of one step add up to: of the collectives ring before it goes round.
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

constexpr void add_call(StepSum& sum, const CollectiveEntry& call) {
    if (!moves_data(call.kind) || (call.flags & kCaptured) != 0) {
        return;  // what was captured runs later, with entries of its own
    }
    ++sum.calls;
    sum.bytes += call.count * datatype_size_bytes(call.datatype);
    sum.host_ticks += call.returned_ticks > call.entered_ticks ? call.returned_ticks - call.entered_ticks : 0;
    // Equal where the start was only noticed together with the end.
    if (call.gpu_started_ticks != 0 && call.gpu_finished_ticks > call.gpu_started_ticks) {
        sum.device_ticks += call.gpu_finished_ticks - call.gpu_started_ticks;
        ++sum.timed_calls;
    }
    const uint64_t ended =
        call.returned_ticks > call.gpu_finished_ticks ? call.returned_ticks : call.gpu_finished_ticks;
    sum.first_ticks =
        sum.first_ticks == 0 || call.entered_ticks < sum.first_ticks ? call.entered_ticks : sum.first_ticks;
    sum.last_ticks = ended > sum.last_ticks ? ended : sum.last_ticks;
}

// Two parts of the same step.
constexpr void add_sum(StepSum& sum, const StepSum& other) {
    sum.calls += other.calls;
    sum.bytes += other.bytes;
    sum.host_ticks += other.host_ticks;
    sum.device_ticks += other.device_ticks;
    sum.timed_calls += other.timed_calls;
    sum.first_ticks = sum.first_ticks == 0 || (other.first_ticks != 0 && other.first_ticks < sum.first_ticks)
                          ? other.first_ticks
                          : sum.first_ticks;
    sum.last_ticks = other.last_ticks > sum.last_ticks ? other.last_ticks : sum.last_ticks;
}

}  // namespace titan::format

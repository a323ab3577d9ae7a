// Adds up a process's NCCL calls step by step, and its readings of the machine, before their rings go round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/container/journal_writer.h"
#include "ring_tail.h"

namespace titan::tracer {

// Room to work in.
struct StepRoom {
    static constexpr size_t kEntries = 1024;
    union {
        format::CollectiveEntry calls[kEntries];
        format::HealthEntry readings[kEntries];
    };
    format::StepSum steps[format::kJournalBlockSteps];
    format::StepCalls step_calls[format::kJournalBlockCalls];
    format::StepCommunicator communicators[format::kJournalCommunicators];
    format::HealthExtremes health[format::kJournalHealthNames];
};

// The calls from `next_call` on, which moves behind them: those of steps that are over, for what a call took on the GPU
// is known a while after it; all that fit where `all` is wanted, because the process is gone or the ring goes round.
format::StepSums sum_steps(RingTail& tail, uint64_t& next_call, bool all, StepRoom& room);

// The readings from `next_reading` on, which moves behind them.
std::span<format::HealthExtremes> sum_health(RingTail& tail, uint64_t& next_reading, StepRoom& room);

}  // namespace titan::tracer

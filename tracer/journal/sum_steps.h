// Adds up a process's NCCL calls step by step, before its ring goes round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/container/journal_writer.h"
#include "ring_tail.h"

namespace titan::tracer {

// Room to work in.
struct StepRoom {
    static constexpr size_t kCalls = 1024;
    format::CollectiveEntry calls[kCalls];
    format::StepSum steps[format::kJournalBlockSteps];
};

// The calls from `next_call` on, which moves behind them: those of steps that are over, for what a call took on the GPU
// is known a while after it; all that fit where `all` is wanted, because the process is gone or the ring goes round.
format::StepSums sum_steps(RingTail& tail, uint64_t& next_call, bool all, StepRoom& room);

}  // namespace titan::tracer

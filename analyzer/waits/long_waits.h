// Waits for the GPU that a watchdog calls a hang, whatever is recorded of the call that they are for.
#pragma once

#include <cstdint>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// For how long some thread of the process has waited, if that is nearly its timeout and a watchdog of the run called a
// hang; else 0.
int64_t hangs_for_ns(const Run& run, const Process& process);

// A call that such a thread waits in, whose entry is overwritten: another thread went on and filled the ring. The
// counters of the communicators and of their pairs still tell which call it is.
struct LostCall {
    uint32_t row = kNoIndex;
    uint64_t sequence = 0;
    OpKind op{};           // kOtherCollective: no member has it on record
    int32_t peer = -1;     // of a send or receive
    bool is_owed = false;  // somebody has not made it
};
// `process`: index. One half of a pair if `pairs`, else a collective of each communicator.
std::vector<LostCall> lost_calls(const Run& run, uint32_t process, bool pairs);

}  // namespace titan::analyzer

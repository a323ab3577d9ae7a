// Finds a rank that makes no call any more because it waits for other ranks outside NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "session.h"

namespace titan::tracer {

struct StandstillState {
    uint64_t looked_ns;          // monotonic, 0 never
    uint64_t reported_moved_ns;  // the standstill that was reported: since when
};

// True with a sentence when there was no collective for longer than the timeout, none is pending, and the stack of the
// main thread or of one that called NCCL shows a wait for others. `moved_ns`: the last collective (monotonic). Looks at
// stacks once per timeout at most; each standstill is reported once.
bool find_standstill(Session& session, StandstillState& state, uint64_t moved_ns, char* detail, size_t capacity_bytes);

}  // namespace titan::tracer

// Finds what has been stuck for longer than the timeout: a collective on the device, or a thread inside a blocking
// call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "session.h"

namespace titan::tracer {

struct WatchdogState {
    uint64_t reported_ticket_plus_one;     // collective that was reported last
    uint64_t documented_ticks;             // a dump shows calls entered before this moment as stuck already
    uint64_t reported_entered_ticks[512];  // indexed by row of the threads table
    uint64_t looked_ticks;
    uint64_t resumed_ticks;  // the process was stopped, or the machine slept, until then: waits count from there
};

// True with a sentence when something is stuck that was not reported yet. Each stuck call is reported once.
bool find_stuck(Session& session, WatchdogState& state, char* detail, size_t capacity_bytes);

}  // namespace titan::tracer

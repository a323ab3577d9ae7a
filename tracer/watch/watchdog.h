// Finds what makes a rank dump by itself: a call that is stuck for longer than the timeout (a collective on the device,
// or a thread inside a blocking call), and a wait for other ranks outside NCCL. Watch thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "session.h"

namespace titan::tracer {

void reset_watchdog();                       // a new session
void note_progress(const Session& session);  // at each tick: looks whether collectives were called

// True with a sentence when something is stuck that was not reported yet. Each stuck call is reported once.
bool find_stuck(Session& session, char* detail, size_t capacity_bytes);
// A dump that is made now shows everything that hangs; the next call that hangs is news.
void note_documented();

// True with a sentence when there was no collective for longer than the timeout, none is pending, and the stack of the
// main thread or of one that called NCCL shows a wait for others. Looks at stacks once per timeout at most; each
// standstill is reported once.
bool find_standstill(Session& session, char* detail, size_t capacity_bytes);

// Nothing was called, or something did not finish, for a part of the timeout, 10 s at most.
bool stands_still(const Session& session);

}  // namespace titan::tracer

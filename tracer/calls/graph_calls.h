// Effects of calls on captures and graphs.
#pragma once

#include "session.h"

namespace titan::tracer {

// Adds the captured entries of `group` among [first_ticket, last_ticket] to their captures, under one lock, so that
// groups of two threads do not mix in one list. cold.
[[gnu::cold]] void remember_captured(Session& session, uint64_t first_ticket, uint64_t last_ticket, uint64_t group);

// The launch of `exec` on `stream` was captured: its calls are part of the capture. cold.
void note_launch_captured(Session& session, const void* exec, const void* stream);

// capture_of() where a capture may be under way.
uint32_t ask_capture(Session& session, const void* stream);

// Number of the capture that a call on `stream` is captured by, kNotCaptured, or kUnknownCapture. The driver is asked
// only where a capture may be under way: one was seen to begin, or we are about to put marks on the stream.
inline uint32_t capture_of(Session& session, const void* stream) {
    return session.watches_streams() ? ask_capture(session, stream) : kNotCaptured;
}

}  // namespace titan::tracer

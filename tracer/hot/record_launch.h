// Effects of a launch on the entries of its collectives: one call, a group's calls on one stream, or the calls of a
// graph. hot.
#pragma once

#include "session.h"
#include "thread_state.h"

namespace titan::tracer {

// What the marks of a launch add to the flags of its entries.
inline uint16_t flags_of(const Launch& launch) {
    return launch.number_plus_one != 0 && launch.start_event == nullptr ? format::kMarkedByWrites : 0;
}

// Partners of GpuProgress::begin. The entries' `launch` is the caller's to set, before they are published or while they
// are the caller's own.
//
// The launch has returned with `result`: updates the entries in [first, last] of `calls` that are in state `from` and
// carry the launch's number (or are on its stream, if it has none), and puts the mark behind it.
void end_launch(Session& session, Launch& launch, const LaunchedCalls& calls, format::CallState from, int result,
                uint64_t now);

// The same of an observed launch of one call, whose entry is held.
void end_launch(Session& session, Launch& launch, format::CollectiveEntry& entry, uint64_t ticket, int result,
                uint64_t now);

// One entry of the stream work ring. `flags` are format::StreamWorkFlags. Returns the entry's ticket.
uint64_t write_work(Thread& thread, uint16_t api, const StreamWork& work, uint8_t flags, uint64_t now);

}  // namespace titan::tracer

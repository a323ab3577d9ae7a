// Effects of a launch on the entries of its collectives: one call, a group's calls on one stream, or the calls of a
// graph. hot.
#pragma once

#include "session.h"

namespace titan::tracer {

// Partner of GpuProgress::begin. The entries' `launch` is the caller's to set, before they are published or while they
// are the caller's own.
//
// The launch has returned with `result`: the entries in [first, last] of `calls` that are in state `from` and carry the
// launch's number (or are on its stream, where it has none) are told, and the mark behind it is put.
void end_launch(Session& session, const Launch& launch, const LaunchedCalls& calls, format::CallState from, int result,
                uint64_t now);

}  // namespace titan::tracer

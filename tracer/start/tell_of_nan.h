// Tells people at once that a metric is no number: the verdict comes later, and the job trains on. cold.
#pragma once

#include "session.h"

namespace titan::tracer {

// The watch thread calls it at each tick, and it looks at the markers since the last: a metric costs nothing more. Once
// per process, and for one process of a node within ten minutes.
void tell_of_nan(Session& session);
// A new session: nothing is told yet.
void forget_nan();

}  // namespace titan::tracer

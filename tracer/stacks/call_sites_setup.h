// The cold side of call sites: finds the Python and the modules of the process for them, at the start of a session and
// later again. For the thread that starts the session, then for the watch thread.
#pragma once

#include "call_sites.h"

namespace titan::tracer {

void start_call_sites(CallSites& sites);

// Looks again for a Python, or for modules, that were not there, in growing intervals.
void poll_call_sites(CallSites& sites);

}  // namespace titan::tracer

// Tells a SIGABRT of abort(), which ends the process once the program's handler has returned, from one of raise(),
// which the program may survive. In both cases the thread sends it to itself.
#pragma once

#include <signal.h>

namespace titan::tracer {

// cold. Before the first question.
void find_abort();

// Decides by the frames that the signal interrupted; they must not have been left. False if memory may not be read by
// system call. signal-safe.
bool is_sent_by_abort(const siginfo_t* info, const void* context);

}  // namespace titan::tracer

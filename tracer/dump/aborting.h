// Whether a SIGABRT comes from abort(), which ends the process when the program's handler has returned, or from
// raise(), which the program may survive. Both are sent by the thread to itself.
#pragma once

#include <signal.h>

namespace titan::tracer {

// cold. Before the first question.
void find_abort();

// By the frames that the signal interrupted, which must stand. False where memory may not be read by system call.
// signal-safe.
bool is_sent_by_abort(const siginfo_t* info, const void* context);

}  // namespace titan::tracer

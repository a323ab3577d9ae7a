// The tracer's answers to sigaction and its relatives, for their wrappers. signal-safe, any-thread.
//
// For signals that the tracer owns, the kernel holds the tracer's handler and a table holds the program's action: the
// program reads back what it wrote, and its handler runs as if it were alone.
#pragma once

#include <signal.h>

namespace titan::tracer {

// False before the session, for every signal that is not ours, and in a vfork child, whose actions are not its
// parent's.
bool owns_signal(int number);

// sigaction(2) on the program's action of an owned signal.
int change_action(int number, const struct sigaction* action, struct sigaction* old);

// The calling thread has set up an alternative stack.
void note_alternative_stack();

}  // namespace titan::tracer

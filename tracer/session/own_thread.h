// The tracer's own threads: detached, named, with every signal blocked (the program's handlers must never run on them),
// and recording nothing of what they call.
#pragma once

namespace titan::tracer {

// cold. `name` has at most 15 characters. False when the process may have no more threads.
bool start_own_thread(const char* name, void (*body)(void*), void* argument);

}  // namespace titan::tracer

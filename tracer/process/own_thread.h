// The tracer's own threads: detached, named, with every signal blocked (the program's handlers must never run on them),
// and recording nothing of what they call. The thread that first calls NCCL may be a real-time one, and bound to a
// processor that it never gives up: ours have the usual policy, and where it is bound to one processor those that the
// process was started on.
#pragma once

namespace titan::tracer {

// cold. `name` has at most 15 characters. False when the process may have no more threads.
bool start_own_thread(const char* name, void (*body)(void*), void* argument);

// True if the calling thread is one of them. hot.
bool is_own_thread();

// Whether the program's threads have all left by pthread_exit, the main thread too, and only ours live. Without ours,
// the C library would have ended the process when the last one left. Our threads only.
bool has_program_left();

// When the library is loaded: the launcher's choice of processors, before any thread narrows its own.
void note_processors_of_launch();

}  // namespace titan::tracer

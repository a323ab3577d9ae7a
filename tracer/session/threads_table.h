// Hands out the tracer's per-thread state and the rows of the ring's threads table. cold: once per thread.
#pragma once

#include "thread_state.h"

namespace titan::tracer {

// Null when more threads record than the tracer has room for (counted as a loss).
Thread* take_thread(Session& session);

// Gives the calling thread's row back; also called when the thread ends.
void give_back_thread(Thread& thread);

// A new session needs its own states; the key whose destructor gives a thread's row back is made here.
bool start_threads_table(Session& session);

void forget_this_thread();

// Does in a forked child what kernels before 4.14 do not do.
void wipe_threads_table();

}  // namespace titan::tracer

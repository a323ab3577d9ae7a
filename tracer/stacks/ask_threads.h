// Asks running threads of this process for their stacks: sends each a real-time signal, whose handler copies the
// thread's registers and stack into a slot, walks its Python frames and returns. The handler takes no lock and calls
// nothing but the kernel, so it does not matter what it interrupts. Ask and answer are for the watch thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "captured.h"
#include "python_reader.h"

namespace titan::tracer {

inline constexpr size_t kAskedAtOnce = 32;

// Maps the slots. False: no memory.
bool prepare_asking();

// Real-time signals that the program has no action for, taken (again, where the program took one since). Two, as the
// kernel knows nothing of a thread's alternative stack but its range: one that a program set up may be too small for a
// handler that the program does not have, or gone. Threads that did so are asked where they stand. Those of runtimes
// that set it up without libc (Go) stand on stacks that have no room for handlers.
struct StackSignals {
    int alternative;  // handler runs on the alternative stack, if there is one
    int plain;        // handler runs on the thread's current stack
};
// False: there are none.
bool take_stack_signals(StackSignals& signals);

// Asks with one of them; a thread that is gone meanwhile does not answer. `python_state`: the thread's own, 0 none.
void ask_thread(const StackSignals& signals, size_t slot, pid_t tid, uint64_t python_state);
// Waits until all slots that were asked have answered, or until that moment (CLOCK_MONOTONIC).
void await_answers(uint64_t deadline_ns);
struct Answer {
    CapturedThread thread;
    PythonWalk python;
};
// The answer of a slot's thread, null if it gave none. Afterwards the slot is free, and an answer that comes later is
// dropped.
const Answer* take_answer(size_t slot);

// Like take_answer, for a thread that waits and is not asked: its stack is read from here.
Answer& room_for_waiting();

void release_asking_memory();

// Whether a handler's frame finds room on the main thread's stack: that one alone grows as it is used; those of other
// threads are as long from the start as they may become. Where the program may have no more addresses (RLIMIT_AS), the
// kernel answers a stack that is to grow with SIGSEGV.
bool main_stack_may_grow();

}  // namespace titan::tracer

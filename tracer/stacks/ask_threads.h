// Asks threads of this process where they stand: a real-time signal to each, whose handler copies its registers and stack
// into a slot, walks its Python frames and returns. The handler takes no lock and calls nothing but the kernel, so it does not matter what it
// interrupts. Ask and answer are for the watch thread.
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

// Finds a real-time signal that the program has no action for, and takes it (again, where the program took it since).
// 0: there is none.
int stack_signal();

// Asks with that signal; a thread that is gone meanwhile does not answer. `python_state`: the thread's own, 0 none.
void ask_thread(int signal_number, size_t slot, pid_t tid, uint64_t python_state);
// Waits until all slots that were asked have answered, or until that moment (CLOCK_MONOTONIC).
void await_answers(uint64_t deadline_ns);
struct Answer {
    CapturedThread thread;
    PythonWalk python;
};
// What a slot's thread answered, null if it did not. Afterwards the slot is free; an answer that comes later finds nobody.
const Answer* take_answer(size_t slot);

void release_asking_memory();

}  // namespace titan::tracer

// The Python of this process as stacks see it: found once per dump, walked by each thread for itself while it answers,
// put into words afterwards. find, state_of and describe are for the watch thread; walk_python is signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "code_place.h"
#include "frames.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxPythonFrames = 192;

// A thread's walk over its own Python frames.
struct PythonWalk {
    python::Walk walk;
    python::Frame frames[kMaxPythonFrames];
};

bool prepare_python();
// Looks for CPython and its threads. Empty: there is none; else its version, or why it cannot be read.
const char* find_python();
// The same where it was found before, or was not: only its threads are looked for.
const char* find_python_again();
void forget_python();

// The thread state of that thread, 0: it runs no Python.
uint64_t python_state_of(pid_t tid);
// True for a thread that held the GIL when find_python() looked, and holds it still.
bool held_gil_since(pid_t tid);
void walk_python(uint64_t state, PythonWalk& into);

struct PythonPlace {
    const char* file;  // valid until the next call
    const char* function;
    int32_t line;
};
bool describe_python(const python::Frame& frame, PythonPlace& place);

void release_python_memory();

}  // namespace titan::tracer

// The thread states of all interpreters of a process.
//
// Thread-safety: any thread; async-signal-safe. The lists change under us: each state must name the interpreter in
// whose list it is.
#pragma once

#include "runtime.h"

namespace titan::tracer::python {

// An OS thread that runs a sub-interpreter has a state in each interpreter that it is within; the marks of their frames
// (Frame::native_mark) tell which is inside.
struct ThreadState {
    uint64_t address = 0;
    uint64_t interpreter = 0;
    int64_t interpreter_id = 0;
    uint64_t pthread = 0;  // pthread_self() of the thread that made it
    // Its kernel id. 3.9 and 3.10 do not keep it: there it is what glibc (x86-64, 2.10 and later) has where a pthread_t
    // points to; another C library has something else there, so it is to be checked against the list of tasks. 0
    // unknown.
    uint64_t native_id = 0;
};

struct ThreadList {
    uint32_t count = 0;
    bool more = false;  // there was no room for all
    bool torn = false;  // a list did not hold together, even when read again: threads may be missing
};

ThreadList list_threads(const Memory& memory, const Runtime& runtime, ThreadState* out, uint32_t capacity);

// Address of the thread state that holds the GIL of this interpreter; 0: none does, or CPython was built without one.
uint64_t gil_holder(const Memory& memory, const Runtime& runtime, uint64_t interpreter);

}  // namespace titan::tracer::python

// Return addresses of a captured stack: libunwind's remote unwinder over the copy, so that the thread itself is long
// gone on its way. The library is opened at run time. Without it rules do that are simpler (hot/unwind_rules.h), and
// frame pointers where code has no unwind tables. For the watch thread; nothing here allocates once prepare_unwinder()
// has run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "captured.h"
#include "modules.h"

namespace titan::tracer {

// Opens libunwind: with the dynamic linker's lock and the heap, so not on the dump path. False: by simpler rules.
bool prepare_unwinder();
bool has_unwinder();

struct Unwound {
    size_t count;
    bool whole;  // the outermost frame is among them
};

// Call once for all stacks of a dump: modules come and go in between. `signal` is one with a handler, 0 none.
void new_unwind_round(int signal);
// Addresses innermost first; format::kInterrupted marks what a signal interrupted. `steady`: the thread waits for us,
// so that its memory beyond the copy may be read as well: a handler on a stack of its own has the program's behind it.
// `tops`: the stack pointer of each frame, 0 unknown; a frame reaches up to the next one's.
Unwound unwind(const CapturedThread& thread, bool steady, const ModuleList& modules, uint64_t* addresses,
               uint64_t* tops, size_t capacity);

}  // namespace titan::tracer

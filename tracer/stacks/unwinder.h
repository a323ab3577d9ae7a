// Return addresses of a captured stack: libunwind's remote unwinder over the copy, so that the thread itself is long gone
// on its way. The library is opened at run time: without it, or where code has no unwind tables, frame pointers are
// followed. For the watch thread; nothing here allocates once prepare_unwinder() has run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "captured.h"
#include "modules.h"

namespace titan::tracer {

// Opens libunwind: with the dynamic linker's lock and the heap, so not on the dump path. False: frame pointers only.
bool prepare_unwinder();
bool has_unwinder();

struct Unwound {
    size_t count;
    bool whole;  // the outermost frame is among them
};

// Innermost first. Call new_unwind_round() once for all stacks of a dump: modules come and go in between.
void new_unwind_round();
Unwound unwind(const CapturedThread& thread, const ModuleList& modules, uint64_t* addresses, size_t capacity);

}  // namespace titan::tracer

// The line of an instruction, from a code object's table. Async-signal-safe, bounded by the table's size.
//
// Sources: CPython's Objects/lnotab_notes.txt (3.9, 3.10) and its description of code locations (3.11 and later).
#pragma once

#include "base/memory.h"
#include "python_layout.h"

namespace titan::tracer::python {

// 0: none belongs to this instruction, or the table is damaged.
int32_t line_of(const Memory& memory, LineTable kind, uint64_t table, uint64_t table_bytes, int32_t first_line,
                int32_t offset);

}  // namespace titan::tracer::python

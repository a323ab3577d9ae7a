// Columns and indices over the calls of one process.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Completes a new Process whose entries and members are filled in: the calls that each member has issued and their
// entries, and the history, to which Entry::place points.
void index_calls(Process& process);

// Member::calls of the entries that are there.
void index_entries(Process& process);

// The longest time that the program went without a call. If nobody watches the GPU, nothing else shows how long its
// steps are. What an abort ends was no pause of the program but the hang.
int64_t longest_pause_ns(const Process& process);

}  // namespace titan::analyzer

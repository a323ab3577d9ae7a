// Columns and indices over the calls of one process.
#pragma once

#include "run.h"

namespace titan::analyzer {

// For whoever makes a Process, once its entries and members are filled in: what each member has issued and which
// entries are its calls, and the history, to which Entry::place points.
void index_calls(Process& process);

// Member::calls of the entries that are there.
void index_entries(Process& process);

}  // namespace titan::analyzer

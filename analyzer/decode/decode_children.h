// The processes that a rank started, as its dump tells.
#pragma once

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// Fills Process::children and out_of_memory_kills; its other texts must be there.
void decode_children(const OpenedSource& opened, Process& process);

}  // namespace titan::analyzer

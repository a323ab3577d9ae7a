// The stacks of a process of a run.
#pragma once

#include "named_stacks.h"
#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// Of what the process was read from, null where that is none of our dumps; its notes say where there is none. A digest
// has them without addresses, and of a few threads.
ProcessStacks stacks_of(const Process& process, const OpenedSource* opened, Symbols& symbols);

}  // namespace titan::analyzer

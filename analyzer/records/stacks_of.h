// The stacks of a process of a run.
#pragma once

#include "named_stacks.h"
#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// The stacks in the record `opened`, null if that is none of our dumps; notes say why there are none. A digest has
// stacks of a few threads, without addresses.
ProcessStacks stacks_of(const Process& process, const OpenedSource* opened, Symbols& symbols);

}  // namespace titan::analyzer

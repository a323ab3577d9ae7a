// Calls of one NCCL group end together.
#pragma once

#include "wait_graph.h"

namespace titan::analyzer {

// What is held by one call of a group is held by those of its calls that lack somebody, too: they end together.
// And where one member alone waits in an exchange, because all others went on without it, it is the odd one.
void look_at_whole_groups(const Run& run, WaitGraph& graph);

}  // namespace titan::analyzer

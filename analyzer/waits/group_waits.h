// Calls of one NCCL group end together.
#pragma once

#include "wait_graph.h"

namespace titan::analyzer {

// Calls of a group end together: a member held by one is held by those that lack somebody, too. And if only one member
// waits in an exchange, because all others went on without it, it is the odd one.
void merge_groups(const Run& run, WaitGraph& graph);

}  // namespace titan::analyzer

// Calls that run ahead of their rank's computation, as the all_gathers of FSDP do: the time until they come is no work.
#pragma once

#include <cstdint>
#include <vector>

#include "node_chains.h"
#include "step_graph.h"

namespace titan::analyzer {

// Fills `runs_ahead` of chained nodes.
void find_those_ahead(const std::vector<RawNode>& raw, StepGraph& graph);

}  // namespace titan::analyzer

// Puts the nodes of a graph into an order in which all that one waits for is before it.
#pragma once

#include <cstdint>
#include <vector>

#include "step_graph.h"

namespace titan::analyzer {

// Fills `order` and `forced` of the graph. `came`: the nodes of each rank as they came; `arrived_ns`: when, by node.
void order_nodes(const std::vector<std::vector<uint32_t>>& came, const std::vector<double>& arrived_ns,
                 StepGraph& graph);

}  // namespace titan::analyzer

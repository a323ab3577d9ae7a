// The times of a graph: how long each rank worked by itself before each node, how long each node ran once all had come,
// and an order to play the nodes in.
#pragma once

#include <cstdint>
#include <vector>

#include "clocks.h"
#include "node_chains.h"

namespace titan::analyzer {

// When the last of the graph's ranks came to each meeting, on one clock.
struct LastArrivals {
    int64_t origin_ns = 0;
    std::vector<double> since_origin_ns;
};

// Behind chain_nodes: fills all that StepGraph says of times, and `order`.
LastArrivals fill_times(const Run& run, const Clocks& clocks, const std::vector<RawNode>& raw,
                        const std::vector<std::vector<uint32_t>>& came, StepGraph& graph);

}  // namespace titan::analyzer

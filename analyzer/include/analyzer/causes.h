// Reads the wait-for graph: which nodes hang, which cycles there are, what is behind what.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/finding.h"
#include "analyzer/wait_graph.h"

namespace titan::analyzer {

// By node: has somebody waited in it for longer than this run ever waits? A snapshot of a healthy job has waits too.
std::vector<bool> find_hung(const Run& run, const WaitGraph& graph, const DiagnoseOptions& options);

// By node: number of its strongly connected component. Components with more than one node are deadlocks.
std::vector<uint32_t> find_components(const WaitGraph& graph);

// Nodes from which `target` is reached, itself included.
std::vector<uint32_t> nodes_behind(const WaitGraph& graph, const std::vector<uint32_t>& targets);

// A shortest cycle through the component, as edges; the last one leads back to the first.
std::vector<Edge> shortest_cycle(const WaitGraph& graph, const std::vector<uint32_t>& components, uint32_t start);

}  // namespace titan::analyzer

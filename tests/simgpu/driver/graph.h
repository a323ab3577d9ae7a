// Graphs as values: copies, comparisons, and what a launch runs. All functions expect the driver's lock held.
#pragma once

#include "objects.h"

namespace simgpu {

// A deep copy. Each node remembers the node that it was made from.
std::unique_ptr<CUgraph_st> copy_graph(const CUgraph_st& from);
// Graphs that a program holds a handle to, embedded ones included.
void publish_graph(CUgraph graph);
void withdraw_graph(CUgraph graph);

CUgraphNode add_node(CUgraph_st& graph, CUgraphNode_st node);

// The same nodes with the same dependencies? Otherwise `odd` is the first node of `to` that differs.
CUgraphExecUpdateResult compare_graphs(const CUgraph_st& from, const CUgraph_st& to, CUgraphNode* odd);
// A copy of `from` whose nodes go by the names of `names`' nodes, which an update must not change.
std::unique_ptr<CUgraph_st> copy_renamed(const CUgraph_st& from, const CUgraph_st& names);

// What one launch does, in order. Events that the graph records for the outside get their new moments now.
std::vector<Work> unroll(const CUgraph_st& graph);

}  // namespace simgpu

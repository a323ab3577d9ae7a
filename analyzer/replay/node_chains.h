// What each node of a rank waited for on its own GPU: a call before it, or nothing but the work between them.
#pragma once

#include <cstdint>
#include <vector>

#include "step_graph.h"

namespace titan::analyzer {

// A node with its times, on its own host's clock.
struct RawNode {
    int64_t entered_ns = 0;
    int64_t arrived_ns = 0;
    int64_t ended_ns = 0;  // 0 unknown
    uint32_t step = 0;
    uint32_t row = kNoIndex;
    OpKind kind{};
    uint32_t piece = kNoIndex;  // of Process::step_streams

    bool is_call() const { return row != kNoIndex; }
};

// Fills `before` and `after_end` of the nodes, and `last`. `came`: the nodes of each rank as they came.
void chain_nodes(const std::vector<RawNode>& raw, std::vector<std::vector<uint32_t>>& came, StepGraph& graph);

}  // namespace titan::analyzer

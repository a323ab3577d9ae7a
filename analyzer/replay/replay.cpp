#include "replay.h"

#include <algorithm>

namespace titan::analyzer {

Durations recorded_durations(const StepGraph& graph) {
    Durations durations;
    durations.own_ns.reserve(graph.nodes.size());
    durations.run_ns.reserve(graph.nodes.size());
    for (const StepNode& node : graph.nodes) {
        durations.own_ns.push_back(node.own_ns);
        durations.run_ns.push_back(node.run_ns);
    }
    durations.tail_ns = graph.tail_ns;
    return durations;
}

double replay(const StepGraph& graph, const Durations& durations) {
    constexpr double kNotKnown = -1;
    std::vector<double> together_ns(graph.meeting_size.size(), 0);
    std::vector<double> arrived_ns(graph.nodes.size(), 0);
    std::vector<double> ended_ns(graph.nodes.size(), kNotKnown);
    // Asked for only when all that it waits for has arrived: the order sees to that.
    const auto end_of = [&](uint32_t node) {
        if (ended_ns[node] == kNotKnown) {
            double last_ns = arrived_ns[node];
            for (uint32_t p = graph.piece_begin[node]; p < graph.piece_begin[node + 1]; ++p) {
                if ((graph.pieces[p] & StepGraph::kDoesNotWait) == 0) {
                    last_ns = std::max(last_ns, together_ns[graph.pieces[p]]);
                }
            }
            ended_ns[node] = std::max(arrived_ns[node], last_ns + static_cast<double>(durations.run_ns[node]));
        }
        return ended_ns[node];
    };
    for (const uint32_t n : graph.order) {
        const StepNode& node = graph.nodes[n];
        const double since_ns = node.before == kNoIndex ? graph.began_ns[graph.rank_of(n)]
                                : node.after_end        ? end_of(node.before)
                                                        : arrived_ns[node.before];
        arrived_ns[n] = since_ns + static_cast<double>(durations.own_ns[n]);
        if (node.after != kNoIndex) {
            arrived_ns[n] = std::max(arrived_ns[n], end_of(node.after));
        }
        for (uint32_t p = graph.piece_begin[n]; p < graph.piece_begin[n + 1]; ++p) {
            double& last_ns = together_ns[graph.pieces[p] & ~StepGraph::kDoesNotWait];
            last_ns = std::max(last_ns, arrived_ns[n]);
        }
    }
    double sum_ns = 0;
    size_t played = 0;
    for (uint32_t r = 0; r < graph.ranks(); ++r) {
        if (graph.last[r] != kNoIndex) {
            sum_ns += end_of(graph.last[r]) + durations.tail_ns[r] - graph.began_ns[r];
            ++played;
        }
    }
    return played == 0 ? 0 : sum_ns / static_cast<double>(played * graph.steps);
}

}  // namespace titan::analyzer

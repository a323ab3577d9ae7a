#include "replay.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

// Plays all nodes in order.
class Player {
  public:
    Player(const StepGraph& graph, const Durations& durations)
        : graph_(graph),
          durations_(durations),
          together_ns_(graph.meeting_size.size(), 0),
          arrived_ns_(graph.nodes.size(), 0),
          ended_ns_(graph.nodes.size(), kNotKnown) {
        for (const uint32_t n : graph.order) {
            arrive(n);
        }
    }

    // Asked for only when all that the node waits for has arrived: the order sees to that.
    double end_of(uint32_t node) {
        if (ended_ns_[node] == kNotKnown) {
            double last_ns = arrived_ns_[node];
            for (const uint32_t meeting : graph_.meetings_of(node)) {
                if ((meeting & StepGraph::kDoesNotWait) == 0) {
                    last_ns = std::max(last_ns, together_ns_[meeting]);
                }
            }
            ended_ns_[node] = std::max(arrived_ns_[node], last_ns + static_cast<double>(durations_.run_ns[node]));
        }
        return ended_ns_[node];
    }

  private:
    static constexpr double kNotKnown = -1;

    void arrive(uint32_t n) {
        const StepNode& node = graph_.nodes[n];
        double since_ns = node.before == kNoIndex ? graph_.began_ns[graph_.rank_of(n)]
                          : node.after_end        ? end_of(node.before)
                                                  : arrived_ns_[node.before];
        if (node.after_both && node.after != kNoIndex) {
            since_ns = std::max(since_ns, end_of(node.after));
        }
        arrived_ns_[n] = since_ns + static_cast<double>(durations_.own_ns[n]);
        if (!node.after_both && node.after != kNoIndex) {
            arrived_ns_[n] = std::max(arrived_ns_[n], end_of(node.after));
        }
        for (const uint32_t meeting : graph_.meetings_of(n)) {
            double& last_ns = together_ns_[meeting & ~StepGraph::kDoesNotWait];
            last_ns = std::max(last_ns, arrived_ns_[n]);
        }
    }

    const StepGraph& graph_;
    const Durations& durations_;
    std::vector<double> together_ns_;  // by meeting: the last arrival
    std::vector<double> arrived_ns_;
    std::vector<double> ended_ns_;
};

}  // namespace

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
    Player player(graph, durations);
    double sum_ns = 0;
    size_t played = 0;
    for (uint32_t r = 0; r < graph.ranks(); ++r) {
        if (graph.last[r] != kNoIndex) {
            sum_ns += player.end_of(graph.last[r]) + durations.tail_ns[r] - graph.began_ns[r];
            ++played;
        }
    }
    return played == 0 ? 0 : sum_ns / static_cast<double>(played * graph.steps);
}

std::vector<double> replayed_steps(const StepGraph& graph, const Durations& durations) {
    Player player(graph, durations);
    std::vector<double> sums_ns(graph.steps, 0);
    std::vector<double> played(graph.steps, 0);
    for (size_t r = 0; r < graph.ranks(); ++r) {
        double before_ns = graph.began_ns[r];
        graph.for_each_step(r, [&](uint32_t first, uint32_t end) {
            double ended_ns = before_ns;
            for (uint32_t n = first; n < end; ++n) {
                ended_ns = std::max(ended_ns, player.end_of(n));
            }
            sums_ns[graph.nodes[first].step] += ended_ns - before_ns;
            ++played[graph.nodes[first].step];
            before_ns = ended_ns;
        });
    }
    for (size_t s = 0; s < graph.steps; ++s) {
        sums_ns[s] = played[s] == 0 ? 0 : sums_ns[s] / played[s];
    }
    return sums_ns;
}

}  // namespace titan::analyzer

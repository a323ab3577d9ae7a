// A rank's calls run on several streams. The record does not say what its computation waits for, but shows it: a node
// that came before another one had ended did not wait for that, on no rank that does the same.
#include "node_chains.h"

#include <algorithm>

namespace titan::analyzer {
namespace {

constexpr size_t kLookBack = 8;  // nodes, in program order, among which is what a node waited for

class Chains {
  public:
    Chains(const std::vector<RawNode>& raw, StepGraph& graph) : raw_(raw), graph_(graph) {}

    void chain(std::vector<std::vector<uint32_t>>& came) {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            came.push_back(as_they_came(r));
            graph_.last.push_back(came.back().empty() ? kNoIndex : came.back().back());
            for (size_t i = 1; i < came.back().size(); ++i) {
                chain_node(r, came.back()[i], came.back()[i - 1]);
            }
        }
    }

  private:
    std::vector<uint32_t> as_they_came(size_t r) const {
        std::vector<uint32_t> came;
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            came.push_back(n);
        }
        std::stable_sort(came.begin(), came.end(),
                         [this](uint32_t a, uint32_t b) { return raw_[a].arrived_ns < raw_[b].arrived_ns; });
        return came;
    }

    // A node's own time counts from what ended last before it came, or, where nothing has ended since a node before it
    // came, from that.
    void chain_node(size_t r, uint32_t n, uint32_t came_before) {
        StepNode& node = graph_.nodes[n];
        int64_t since_ns = INT64_MIN;
        const auto take = [&](uint32_t other, int64_t time_ns, bool end) {
            if (time_ns > since_ns) {
                node.before = other;
                node.after_end = end;
                since_ns = time_ns;
            }
        };
        for (uint32_t back = 1; back <= kLookBack && n >= graph_.begin[r] + back; ++back) {
            const RawNode& other = raw_[n - back];
            if (other.arrived_ns <= raw_[n].arrived_ns) {
                take(n - back, other.arrived_ns, false);
                if (other.ended_ns != 0 && other.ended_ns <= raw_[n].arrived_ns + graph_.known_ns[r]) {
                    take(n - back, other.ended_ns, true);
                }
            }
        }
        if (node.before == kNoIndex) {
            take(came_before, raw_[came_before].arrived_ns, false);
        }
    }

    const std::vector<RawNode>& raw_;
    StepGraph& graph_;
};

}  // namespace

void chain_nodes(const std::vector<RawNode>& raw, std::vector<std::vector<uint32_t>>& came, StepGraph& graph) {
    Chains(raw, graph).chain(came);
}

}  // namespace titan::analyzer

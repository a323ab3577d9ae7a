// Each rank goes on until what it waits for has not come together yet; who comes to a meeting last wakes the others.
#include "graph_order.h"

namespace titan::analyzer {
namespace {

class NodeOrder {
  public:
    NodeOrder(const std::vector<std::vector<uint32_t>>& came, const std::vector<double>& arrived_ns, StepGraph& graph)
        : came_(came),
          arrived_ns_(arrived_ns),
          graph_(graph),
          arrived_(graph.meeting_size.size(), 0),
          waiting_(graph.meeting_size.size()),
          next_(graph.ranks(), 0) {}

    void put() {
        graph_.order.reserve(graph_.nodes.size());
        for (uint32_t r = 0; r < graph_.ranks(); ++r) {
            ready_.push_back(r);
        }
        while (graph_.order.size() < graph_.nodes.size()) {
            while (!ready_.empty()) {
                const uint32_t rank = ready_.back();
                ready_.pop_back();
                go_on(rank);
            }
            force_earliest();
        }
    }

  private:
    void go_on(uint32_t rank) {
        while (next_[rank] < came_[rank].size()) {
            const uint32_t node = came_[rank][next_[rank]];
            if (const uint32_t meeting = held_by(node); meeting != kNoIndex) {
                waiting_[meeting].push_back(rank);
                return;
            }
            arrive(node);
            ++next_[rank];
        }
    }

    // A meeting that it waits for and that has not come together; kNoIndex: none.
    uint32_t held_by(uint32_t n) const {
        const StepNode& node = graph_.nodes[n];
        uint32_t meeting = node.after_end ? unmet(node.before) : kNoIndex;
        if (meeting == kNoIndex && node.after != kNoIndex) {
            meeting = unmet(node.after);
        }
        return meeting;
    }

    uint32_t unmet(uint32_t node) const {
        for (const uint32_t meeting : graph_.meetings_of(node)) {
            if ((meeting & StepGraph::kDoesNotWait) == 0 && arrived_[meeting] < graph_.meeting_size[meeting]) {
                return meeting;
            }
        }
        return kNoIndex;
    }

    void arrive(uint32_t node) {
        graph_.order.push_back(node);
        for (const uint32_t piece : graph_.meetings_of(node)) {
            const uint32_t meeting = piece & ~StepGraph::kDoesNotWait;
            if (++arrived_[meeting] == graph_.meeting_size[meeting]) {
                ready_.insert(ready_.end(), waiting_[meeting].begin(), waiting_[meeting].end());
                waiting_[meeting] = {};
            }
        }
    }

    // The record does not fit together: some call is not what it seems. The earliest one goes on all the same.
    void force_earliest() {
        uint32_t earliest = kNoIndex;
        for (uint32_t r = 0; r < graph_.ranks(); ++r) {
            const auto arrived_ns = [&](uint32_t rank) { return arrived_ns_[came_[rank][next_[rank]]]; };
            if (next_[r] < came_[r].size() && (earliest == kNoIndex || arrived_ns(r) < arrived_ns(earliest))) {
                earliest = r;
            }
        }
        if (earliest != kNoIndex) {
            ++graph_.forced;
            arrive(came_[earliest][next_[earliest]++]);
            ready_.push_back(earliest);
        }
    }

    const std::vector<std::vector<uint32_t>>& came_;
    const std::vector<double>& arrived_ns_;
    StepGraph& graph_;
    std::vector<uint32_t> arrived_;               // by meeting
    std::vector<std::vector<uint32_t>> waiting_;  // by meeting: ranks
    std::vector<size_t> next_;                    // by rank: in came_
    std::vector<uint32_t> ready_;                 // ranks that may go on
};

}  // namespace

void order_nodes(const std::vector<std::vector<uint32_t>>& came, const std::vector<double>& arrived_ns,
                 StepGraph& graph) {
    NodeOrder(came, arrived_ns, graph).put();
}

}  // namespace titan::analyzer

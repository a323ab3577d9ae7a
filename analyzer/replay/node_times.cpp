#include "node_times.h"

#include <algorithm>

#include "whole_steps.h"

namespace titan::analyzer {
namespace {

constexpr double kGoodClockNs = 3e6;  // bound of an aligned clock
constexpr int64_t kLooksBehind = 2;   // a GPU that comes so many looks behind the call keeps up with its host

// Puts nodes into an order in which all that one waits for is before it. Each rank goes on until what it waits for has
// not come together yet; who comes to a meeting last wakes the others.
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

class NodeTimes {
  public:
    NodeTimes(const Run& run, const Clocks& clocks, const std::vector<RawNode>& raw,
              const std::vector<std::vector<uint32_t>>& came, StepGraph& graph)
        : run_(run), clocks_(clocks), raw_(raw), came_(came), graph_(graph) {
        for (const uint32_t process : graph.processes) {
            clocks_are_good_ &= clocks.aligned(process) && clocks.bound_ns(process) <= kGoodClockNs;
        }
    }

    LastArrivals fill() {
        fill_own_times();
        arrived_ns_.resize(raw_.size());
        graph_.for_each_node([this](size_t r, uint32_t n) { arrived_ns_[n] = common_ns(r, raw_[n].arrived_ns); });
        fill_run_times();
        NodeOrder(came_, arrived_ns_, graph_).put();
        return std::move(last_);
    }

  private:
    double common_ns(size_t r, int64_t time_ns) const {
        return static_cast<double>(clocks_.common_ns(graph_.processes[r], time_ns) - last_.origin_ns);
    }

    void fill_own_times() {
        const int32_t last_step = graph_.first_step + static_cast<int32_t>(graph_.steps) - 1;
        std::vector<int64_t> began_ns;
        last_.origin_ns = INT64_MAX;
        for (const uint32_t p : graph_.processes) {
            const StepProfile* const first = run_.processes[p].profile_of(graph_.first_step);
            began_ns.push_back(
                first == nullptr ? 0 : std::max(first->begin_ns, ended_before_ns(run_.processes[p], *first)));
            last_.origin_ns = std::min(last_.origin_ns, clocks_.common_ns(p, began_ns.back()));
        }
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            graph_.began_ns.push_back(common_ns(r, began_ns[r]));
            const StepProfile* const last = run_.processes[graph_.processes[r]].profile_of(last_step);
            const bool any = graph_.last[r] != kNoIndex;
            const int64_t ended_ns =
                !any ? 0 : std::max(raw_[graph_.last[r]].ended_ns, raw_[graph_.last[r]].arrived_ns);
            graph_.tail_ns.push_back(
                last == nullptr || !any ? 0 : static_cast<double>(std::max<int64_t>(0, last->end_ns - ended_ns)));
            graph_.carried_ns.resize((r + 1) * graph_.steps, 0);
            graph_.carried_ns.back() = static_cast<float>(graph_.tail_ns.back());
            const std::vector<int64_t> first_ns = first_calls_ns(r);
            for (const uint32_t n : came_[r]) {
                StepNode& node = graph_.nodes[n];
                const uint32_t before = node.before;
                int64_t since_ns = before == kNoIndex ? began_ns[r]
                                   : node.after_end   ? raw_[before].ended_ns
                                                      : raw_[before].arrived_ns;
                if (node.after_both && node.after != kNoIndex) {
                    since_ns = std::max(since_ns, raw_[node.after].ended_ns);
                }
                node.own_ns = static_cast<float>(raw_[n].arrived_ns - since_ns);  // below 0: seen late
                const int64_t behind_ns = raw_[n].entered_ns - since_ns;
                node.behind_ns = std::clamp(static_cast<float>(behind_ns), 0.0F, std::max(0.0F, node.own_ns));
                node.host_late = behind_ns > 0 && behind_ns > (raw_[n].arrived_ns - since_ns) / 2;
                node.keeps_up = raw_[n].arrived_ns - raw_[n].entered_ns <= kLooksBehind * graph_.known_ns[r];
                if (node.behind_ns > 0 && node.step != 0 && raw_[n].entered_ns <= first_ns[node.step]) {
                    note_carried(r, raw_[n], since_ns);
                }
            }
        }
    }

    // By step: when the host made its first call.
    std::vector<int64_t> first_calls_ns(size_t r) const {
        std::vector<int64_t> first_ns(graph_.steps, INT64_MAX);
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            if (raw_[n].is_call()) {
                int64_t& ns = first_ns[graph_.nodes[n].step];
                ns = std::min(ns, raw_[n].entered_ns);
            }
        }
        return first_ns;
    }

    // The part of the host's time before a step's first call that belongs to the step before. `first`: that call, or
    // the work before it on its stream, which is as late.
    void note_carried(size_t r, const RawNode& first, int64_t since_ns) {
        const StepProfile* const before =
            run_.processes[graph_.processes[r]].profile_of(graph_.first_step + static_cast<int32_t>(first.step) - 1);
        if (before != nullptr) {
            const int64_t until_ns = std::min(before->end_ns, first.entered_ns);
            float& carried_ns = graph_.carried_ns[r * graph_.steps + first.step - 1];
            carried_ns = std::max(carried_ns, static_cast<float>(until_ns - since_ns));
        }
    }

    // The time after the last arrival; of a lone collective, where clocks do not tell when that was, its last member's.
    void fill_run_times() {
        std::vector<double>& last_ns = last_.since_origin_ns;
        std::vector<double> least_ns(graph_.meeting_size.size(), 1e300);
        last_ns.assign(graph_.meeting_size.size(), -1e300);
        graph_.for_each_node([&](size_t, uint32_t n) {
            for (const uint32_t meeting : graph_.meetings_of(n)) {
                last_ns[meeting] = std::max(last_ns[meeting], arrived_ns_[n]);
                if (raw_[n].ended_ns != 0) {
                    least_ns[meeting] = std::min(least_ns[meeting], took_ns(n));
                }
            }
        });
        graph_.for_each_node([&](size_t r, uint32_t n) {
            if (raw_[n].ended_ns == 0) {
                return;
            }
            const Process& process = run_.processes[graph_.processes[r]];
            const std::span<uint32_t> meetings = graph_.meetings_of(n);
            const double seen_ended_ns = arrived_ns_[n] + took_ns(n) + static_cast<double>(graph_.known_ns[r]);
            const bool is_lone = meetings.size() == 1 && !graph_.route_of(meetings.front()).is_pair();
            double waited_ns = 0;
            for (uint32_t& meeting : meetings) {
                const StepRoute& route = graph_.route_of(meeting);
                const bool sends = route.is_pair() && process.members[raw_[n].row].rank == route.from;
                if (sends && seen_ended_ns < last_ns[meeting]) {
                    meeting |= StepGraph::kDoesNotWait;
                } else {
                    waited_ns = std::max(waited_ns, last_ns[meeting] - arrived_ns_[n]);
                }
            }
            const bool by_last = is_lone && !clocks_are_good_;
            graph_.nodes[n].run_ns = static_cast<float>(by_last ? least_ns[meetings.front()] : took_ns(n) - waited_ns);
            graph_.nodes[n].has_end = true;
        });
    }

    double took_ns(uint32_t n) const { return static_cast<double>(raw_[n].ended_ns - raw_[n].arrived_ns); }

    const Run& run_;
    const Clocks& clocks_;
    const std::vector<RawNode>& raw_;
    const std::vector<std::vector<uint32_t>>& came_;
    StepGraph& graph_;
    LastArrivals last_;
    std::vector<double> arrived_ns_;  // by node, since the origin
    bool clocks_are_good_ = true;     // moments on different hosts may be compared
};

}  // namespace

LastArrivals fill_times(const Run& run, const Clocks& clocks, const std::vector<RawNode>& raw,
                        const std::vector<std::vector<uint32_t>>& came, StepGraph& graph) {
    return NodeTimes(run, clocks, raw, came, graph).fill();
}

}  // namespace titan::analyzer

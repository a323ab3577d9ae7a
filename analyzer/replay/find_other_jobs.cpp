// Ranks that mark no steps and that others wait for: generators whose rollouts trainers wait for. One of them that
// comes later than those like it holds up the steps; that all come late is how the two are balanced.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cause_search.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesOthers = 2;     // times as late as the one that comes earliest
constexpr double kLeastLater = 0.03;   // share of a step
constexpr double kLikeTheWorst = 0.5;  // share of what the latest is later than the earliest

// A rank of the other job.
struct Other {
    // Whether it sends or receives, and whether it comes to collectives: one that only gets new weights is not like one
    // that sends what it generated.
    std::pair<bool, bool> meets;
    double late_ns = 0;      // by how much it comes later than those that wait, in the mean over the steps
    double earliest_ns = 0;  // of those like it
    bool is_slow = false;

    double later_ns() const { return late_ns - earliest_ns; }
};

class OtherJobs {
  public:
    explicit OtherJobs(CauseSearch& search) : search_(search) {}

    void find() {
        measure();
        std::map<std::pair<bool, bool>, double> earliest_ns;
        for (const auto& [process, other] : others_) {
            double& ns = earliest_ns.try_emplace(other.meets, other.late_ns).first->second;
            ns = std::min(ns, other.late_ns);
        }
        const Other* latest = nullptr;
        for (auto& [process, other] : others_) {
            other.earliest_ns = earliest_ns[other.meets];
            latest = latest == nullptr || other.later_ns() > latest->later_ns() ? &other : latest;
        }
        if (latest == nullptr || latest->late_ns < kTimesOthers * latest->earliest_ns ||
            latest->later_ns() < kLeastLater * search_.step_ns()) {
            return;
        }
        SlowCause cause;
        cause.of_class = CauseClass::kOtherJob;
        for (auto& [process, other] : others_) {
            other.is_slow = other.later_ns() > kLikeTheWorst * latest->later_ns();
            if (other.is_slow) {
                cause.ranks.push_back(search_.run.processes[process].rank);
            }
        }
        std::sort(cause.ranks.begin(), cause.ranks.end());
        cause.evidence.push_back(fmt::format(
            "they come {} later to a step's calls than the ranks that wait there, others that mark no steps {} (means)",
            fine_duration_text(latest->late_ns), fine_duration_text(latest->earliest_ns)));
        search_.add(std::move(cause), without());
    }

  private:
    // Calls visit(node, whether the meeting is of two alone, who else comes to it).
    template <typename Visit>
    void for_each_outside(const Visit& visit) const {
        const StepGraph& graph = search_.graph;
        for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
            for (uint32_t p = graph.piece_begin[n]; p < graph.piece_begin[n + 1]; ++p) {
                const auto found = graph.outside.find(graph.pieces[p] & ~StepGraph::kDoesNotWait);
                if (found != graph.outside.end()) {
                    visit(n, graph.routes[graph.meeting_route[found->first]].is_pair(), found->second);
                }
            }
        }
    }

    void measure() {
        std::map<std::pair<uint32_t, uint32_t>, double> latest_ns;  // by process and step
        for_each_outside([&](uint32_t n, bool is_pair, const std::vector<OutsideArrival>& arrivals) {
            for (const OutsideArrival& one : arrivals) {
                auto& [in_pairs, in_groups] = others_[one.process].meets;
                (is_pair ? in_pairs : in_groups) = true;
                double& ns = latest_ns[{one.process, search_.graph.nodes[n].step}];
                ns = std::max(ns, one.late_ns);
            }
        });
        for (const auto& [key, ns] : latest_ns) {
            others_[key.first].late_ns += ns / search_.graph.steps;
        }
    }

    // If those that are slow came when the earliest of those like them does.
    Durations without() const {
        Durations edited = search_.recorded();
        for_each_outside([&](uint32_t n, bool, const std::vector<OutsideArrival>& arrivals) {
            double latest_ns = 0, without_ns = 0;
            for (const OutsideArrival& one : arrivals) {
                const Other& other = others_.at(one.process);
                latest_ns = std::max(latest_ns, one.late_ns);
                without_ns = std::max(without_ns, other.is_slow ? other.earliest_ns : one.late_ns);
            }
            const double gain_ns = std::max(0.0, latest_ns - without_ns);
            edited.run_ns[n] = static_cast<float>(std::max(0.0, static_cast<double>(edited.run_ns[n]) - gain_ns));
        });
        return edited;
    }

    CauseSearch& search_;
    std::map<uint32_t, Other> others_;  // by process
};

}  // namespace

void find_other_jobs(CauseSearch& search) {
    if (!search.graph.outside.empty() && search.graph.by_device && search.graph.sample == 1) {
        OtherJobs(search).find();
    }
}

}  // namespace titan::analyzer

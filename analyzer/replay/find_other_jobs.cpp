// Ranks that mark no steps and that others wait for: generators whose rollouts trainers wait for. One of them that
// comes later than those like it holds up the steps; that all come late is how the two are balanced.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cause_search.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesOthers = 2;     // times as late as the one that comes earliest
constexpr double kLeastLater = 0.03;   // share of a step
constexpr double kLikeTheWorst = 0.5;  // share of what the latest is later than the earliest

class OtherJobs {
  public:
    explicit OtherJobs(CauseSearch& search) : search_(search) {}

    void find() {
        measure();
        // A rank that only gets new weights is not like one that sends what it generated.
        std::map<size_t, double> earliest_ns;  // by how often a rank meets others in a step
        for (const auto& [process, own] : meetings_) {
            double& ns = earliest_ns.try_emplace(per_step(own), 1e300).first->second;
            ns = std::min(ns, late_ns_[process]);
        }
        uint32_t latest = 0;
        double most_ns = 0;  // later than the earliest of those like it
        for (const auto& [process, own] : meetings_) {
            like_ns_[process] = earliest_ns[per_step(own)];
            if (late_ns_[process] - like_ns_[process] > most_ns) {
                latest = process;
                most_ns = late_ns_[process] - like_ns_[process];
            }
        }
        if (most_ns < (kTimesOthers - 1) * like_ns_[latest] || most_ns < kLeastLater * search_.step_ns()) {
            return;
        }
        SlowCause cause;
        cause.of_class = CauseClass::kOtherJob;
        for (const auto& [process, ns] : late_ns_) {
            if (ns - like_ns_[process] > kLikeTheWorst * most_ns) {
                slow_.insert(process);
                cause.ranks.push_back(search_.run.processes[process].rank);
            }
        }
        std::sort(cause.ranks.begin(), cause.ranks.end());
        cause.evidence.push_back(fmt::format(
            "they come {} later to a step's calls than the ranks that wait there, others that mark no steps {} (means)",
            fine_duration_text(late_ns_[latest]), fine_duration_text(like_ns_[latest])));
        search_.add(std::move(cause), without());
    }

  private:
    template <typename Visit>
    void for_each_outside(const Visit& visit) const {
        const StepGraph& graph = search_.graph;
        for (size_t r = 0; r < graph.ranks(); ++r) {
            for (uint32_t n = graph.begin[r]; n < graph.begin[r + 1]; ++n) {
                for (uint32_t p = graph.piece_begin[n]; p < graph.piece_begin[n + 1]; ++p) {
                    const auto found = graph.outside.find(graph.pieces[p] & ~StepGraph::kDoesNotWait);
                    if (found != graph.outside.end()) {
                        visit(n, found->first, found->second);
                    }
                }
            }
        }
    }

    // Of each: by how much it comes later, in the mean over the steps.
    void measure() {
        std::map<std::pair<uint32_t, uint32_t>, double> latest_ns;  // by process and step
        for_each_outside([&](uint32_t n, uint32_t meeting, const std::vector<OutsideArrival>& arrivals) {
            for (const OutsideArrival& one : arrivals) {
                meetings_[one.process].insert(meeting);
                double& ns = latest_ns[{one.process, search_.graph.nodes[n].step}];
                ns = std::max(ns, one.late_ns);
            }
        });
        for (const auto& [key, ns] : latest_ns) {
            late_ns_[key.first] += ns / search_.graph.steps;
        }
    }

    size_t per_step(const std::set<uint32_t>& meetings) const {
        return (meetings.size() + search_.graph.steps / 2) / search_.graph.steps;
    }

    // If those that are slow came when the earliest of those like them does.
    Durations without() const {
        Durations edited = search_.recorded();
        for_each_outside([&](uint32_t n, uint32_t, const std::vector<OutsideArrival>& arrivals) {
            double latest_ns = 0, without_ns = 0;
            for (const OutsideArrival& one : arrivals) {
                latest_ns = std::max(latest_ns, one.late_ns);
                without_ns = std::max(without_ns, slow_.contains(one.process) ? like_ns_.at(one.process) : one.late_ns);
            }
            const double gain_ns = std::max(0.0, latest_ns - without_ns);
            edited.run_ns[n] = static_cast<float>(std::max(0.0, static_cast<double>(edited.run_ns[n]) - gain_ns));
        });
        return edited;
    }

    CauseSearch& search_;
    // By process:
    std::map<uint32_t, std::set<uint32_t>> meetings_;
    std::map<uint32_t, double> late_ns_;
    std::map<uint32_t, double> like_ns_;  // of the earliest like it
    std::set<uint32_t> slow_;
};

}  // namespace

void find_other_jobs(CauseSearch& search) {
    if (!search.graph.outside.empty() && search.graph.tells_gpu_work() && search.graph.sample == 1) {
        OtherJobs(search).find();
    }
}

}  // namespace titan::analyzer

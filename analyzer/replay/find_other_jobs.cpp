// Ranks that mark no steps and that others wait for: generators whose rollouts trainers wait for. One of them that
// comes later than those like it holds up the steps; that all come late is how the two are balanced. If several come
// late that meet in collectives of their own, as the GPUs of an inference engine do, one of them may hold up the
// others.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cause_search.h"
#include "collective_instances.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesOthers = 2;     // times as late as the one that comes earliest
constexpr double kLeastLater = 0.03;   // share of a step
constexpr double kLikeTheWorst = 0.5;  // share of what the latest is later than the earliest

constexpr double kHoldsUp = 0.5;  // share of what they are later than others: one holds up the rest for so long
constexpr size_t kLeastShared = 8;
constexpr size_t kMostShared = 4096;

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
            "{} later to a step's calls than the ranks that wait there, others that mark no steps {} (means)",
            fine_duration_text(latest->late_ns), fine_duration_text(latest->earliest_ns)));
        if (const std::optional<Holder> holder = holder_of(latest->later_ns())) {
            cause.of_class = holder->by_host ? CauseClass::kSlowRankHost : CauseClass::kSlowRankGpu;
            cause.evidence.front() = fmt::format("{} come {}", ranks_text(cause.ranks), cause.evidence.front());
            cause.ranks = {search_.run.processes[holder->process].rank};
            cause.evidence.push_back(fmt::format("in calls among themselves they wait for {} {} of each step",
                                                 ranks_text(cause.ranks), fine_duration_text(holder->held_ns)));
        } else {
            cause.evidence.front() = "they come " + cause.evidence.front();
        }
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

    // The slow one that the other slow ones wait for.
    struct Holder {
        uint32_t process = kNoIndex;
        double held_ns = 0;  // of a step
        bool by_host = false;
    };

    std::optional<Holder> holder_of(double later_ns) const {
        std::optional<Holder> most;
        for (const Communicator& communicator : search_.run.communicators) {
            const bool is_theirs =
                std::all_of(communicator.members.begin(), communicator.members.end(), [&](MemberRef ref) {
                    const auto found = others_.find(ref.process);
                    return found != others_.end() && found->second.is_slow;
                });
            const std::optional<Holder> holder = is_theirs ? holder_in(communicator) : std::nullopt;
            if (holder && holder->held_ns > kHoldsUp * later_ns && (!most || holder->held_ns > most->held_ns)) {
                most = holder;
            }
        }
        return most;
    }

    // Who comes last to the communicator's collectives, and how long the others wait for it. The calls are a sample:
    // how many a step has, the sequence numbers tell.
    std::optional<Holder> holder_in(const Communicator& communicator) const {
        std::vector<CollectiveInstance> instances = instances_of(search_.run, communicator, kMostShared);
        std::erase_if(instances, [](const CollectiveInstance& one) { return !one.on_device; });
        std::map<uint32_t, std::pair<double, double>> late_ns;  // by process: in all, and the host's part of it
        for (const CollectiveInstance& instance : instances) {
            const Participant* last = nullptr;
            int64_t before_ns = 0;
            for (const Participant& one : instance.participants) {
                const bool is_last = last == nullptr || one.arrival->arrived_ns() > last->arrival->arrived_ns();
                before_ns = std::max(
                    before_ns, is_last ? last == nullptr ? 0 : last->arrival->arrived_ns() : one.arrival->arrived_ns());
                last = is_last ? &one : last;
            }
            auto& [all_ns, host_ns] = late_ns[last->member.process];
            all_ns += static_cast<double>(last->arrival->arrived_ns() - before_ns);
            host_ns += static_cast<double>(std::max<int64_t>(0, last->arrival->entered_ns - before_ns));
        }
        if (instances.size() < kLeastShared) {
            return std::nullopt;
        }
        const Arrival& first = *instances.front().participants.front().arrival;
        const Arrival& end = *instances.back().participants.front().arrival;
        const auto worst = std::max_element(late_ns.begin(), late_ns.end(), [](const auto& a, const auto& b) {
            return a.second.first < b.second.first;
        });
        double others_ns = 0;  // looks at the GPUs make each seem last now and then
        for (const auto& [process, ns] : late_ns) {
            others_ns = process == worst->first ? others_ns : std::max(others_ns, ns.first);
        }
        if (end.entered_ns <= first.entered_ns) {
            return std::nullopt;
        }
        const double calls_of_step = static_cast<double>(end.sequence - first.sequence) * search_.step_ns() /
                                     static_cast<double>(end.entered_ns - first.entered_ns);
        const auto& [all_ns, host_ns] = worst->second;
        return Holder{worst->first, (all_ns - others_ns) / static_cast<double>(instances.size()) * calls_of_step,
                      host_ns > all_ns / 2};
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

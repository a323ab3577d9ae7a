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
#include "what_is_slow.h"
#include "whole_steps.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesOthers = 2;     // times as late as the one that comes earliest
constexpr double kLeastLater = 0.03;   // share of a step
constexpr double kLikeTheWorst = 0.5;  // share of what the latest is later than the earliest
constexpr double kHoldsUp = 0.5;       // share of what they are later than others: one holds up the rest for so long
constexpr size_t kLeastShared = 8;     // calls among themselves
constexpr size_t kMostShared = 4096;   // likewise, of which so many tell as much as all
constexpr double kFewSteps = 0.3;      // share of the steps: a host that is late in so few pauses
constexpr double kMostOfIt = 0.75;     // of the time that it is late

// A rank of the other job.
struct Other {
    // Whether it sends or receives, and whether it comes to collectives: one that only gets new weights is not like one
    // that sends what it generated.
    std::pair<bool, bool> meets;
    double late_ns = 0;          // by how much it comes later than those that wait, in the mean over the steps
    double earliest_ns = 0;      // of those like it
    double behind_loads_ns = 0;  // of late_ns: in which it loaded code
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
            const Process& slow = search_.run.processes[holder->process];
            cause.evidence.front() = fmt::format("{} come {}", ranks_text(cause.ranks), cause.evidence.front());
            cause.ranks = {slow.rank};
            cause.evidence.push_back(fmt::format("in calls among themselves they wait for {} {} of each step",
                                                 ranks_text(cause.ranks), fine_duration_text(holder->held_ns)));
            cause.of_class = holder->of_class == CauseClass::kSlowRankGpu ? class_of_gpu(search_, slow, cause)
                             : holder->of_class == CauseClass::kSlowRankHost
                                 ? class_of_host(search_, slow, false, cause)
                                 : holder->of_class;
        } else if (cause.ranks.size() == 1 && latest->behind_loads_ns > latest->late_ns / 2) {
            cause.of_class = CauseClass::kJit;
            cause.evidence.front() = fmt::format("{} comes {}", ranks_text(cause.ranks), cause.evidence.front());
            cause.evidence.emplace_back("mostly behind calls that load code");
        } else {
            cause.evidence.front() =
                (cause.ranks.size() == 1 ? "it comes " : "they come ") + std::move(cause.evidence.front());
        }
        search_.add(std::move(cause), without());
    }

  private:
    // Calls visit(node, whether the meeting is of two alone, who else comes to it).
    template <typename Visit>
    void for_each_outside(const Visit& visit) const {
        const StepGraph& graph = search_.graph;
        for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
            for (const uint32_t meeting : graph.meetings_of(n)) {
                const auto found = graph.outside.find(meeting & ~StepGraph::kDoesNotWait);
                if (found != graph.outside.end()) {
                    visit(n, graph.route_of(meeting).is_pair(), found->second);
                }
            }
        }
    }

    void measure() {
        std::map<std::pair<uint32_t, uint32_t>, OutsideArrival> latest;  // by process and step
        for_each_outside([&](uint32_t n, bool is_pair, const std::vector<OutsideArrival>& arrivals) {
            for (const OutsideArrival& one : arrivals) {
                auto& [in_pairs, in_groups] = others_[one.process].meets;
                (is_pair ? in_pairs : in_groups) = true;
                OutsideArrival& last = latest[{one.process, search_.graph.nodes[n].step}];
                last = one.late_ns > last.late_ns ? one : last;
            }
        });
        for (const auto& [key, last] : latest) {
            Other& other = others_[key.first];
            other.late_ns += last.late_ns / search_.graph.steps;
            other.behind_loads_ns += last.behind_loads ? last.late_ns / search_.graph.steps : 0;
        }
    }

    // How a rank comes last to the calls of one communicator.
    struct Late {
        double all_ns = 0;
        double by_host_ns = 0;         // of it: until its host made the call
        double behind_loads_ns = 0;    // of it: in periods in which it loaded code
        std::vector<double> calls_ns;  // one by one
    };
    // The slow one that the other slow ones wait for.
    struct Holder {
        uint32_t process = kNoIndex;
        double held_ns = 0;  // of a step
        CauseClass of_class = CauseClass::kSlowRankGpu;
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

    // Who comes last to the communicator's collectives, and how long the others wait for it. The calls are a sample: of
    // how many, the sequence numbers tell.
    std::optional<Holder> holder_in(const Communicator& communicator) const {
        std::vector<CollectiveInstance> instances = instances_of(search_.run, communicator, kMostShared);
        std::erase_if(instances, [](const CollectiveInstance& one) { return !one.on_device; });
        if (instances.size() < kLeastShared) {
            return std::nullopt;
        }
        const Arrival& first = *instances.front().participants.front().arrival;
        const Arrival& end = *instances.back().participants.front().arrival;
        if (end.entered_ns <= first.entered_ns) {
            return std::nullopt;
        }
        std::map<uint32_t, Late> late;  // by process
        for (CollectiveInstance& instance : instances) {
            note_last(instance.participants, late);
        }
        const auto by_time = [](const auto& a, const auto& b) { return a.second.all_ns < b.second.all_ns; };
        const auto worst = std::max_element(late.begin(), late.end(), by_time);
        double others_ns = 0;  // looks at the GPUs make each seem last now and then
        for (const auto& [process, of_process] : late) {
            others_ns = process == worst->first ? others_ns : std::max(others_ns, of_process.all_ns);
        }
        const double steps = static_cast<double>(end.entered_ns - first.entered_ns) / search_.step_ns();
        const double seen = static_cast<double>(instances.size()) / static_cast<double>(end.sequence - first.sequence);
        return Holder{worst->first, (worst->second.all_ns - others_ns) / seen / steps,
                      class_of(worst->second, steps * seen)};
    }

    void note_last(std::vector<Participant>& participants, std::map<uint32_t, Late>& late) const {
        std::sort(participants.begin(), participants.end(), [](const Participant& a, const Participant& b) {
            return a.arrival->arrived_ns() > b.arrival->arrived_ns();
        });
        const Arrival& last = *participants[0].arrival;
        const int64_t before_ns = participants[1].arrival->arrived_ns();
        const auto late_ns = static_cast<double>(last.arrived_ns() - before_ns);
        Late& of_last = late[participants[0].member.process];
        of_last.all_ns += late_ns;
        of_last.calls_ns.push_back(late_ns);
        of_last.by_host_ns += static_cast<double>(std::max<int64_t>(0, last.entered_ns - before_ns));
        const bool loads = loads_code(search_.run.process(participants[0].member), before_ns, last.entered_ns);
        of_last.behind_loads_ns += loads ? late_ns : 0;
    }

    // `steps`: of so many the calls were seen.
    static CauseClass class_of(Late late, double steps) {
        if (late.by_host_ns < late.all_ns / 2) {
            return CauseClass::kSlowRankGpu;
        }
        if (late.behind_loads_ns > late.all_ns / 2) {
            return CauseClass::kJit;
        }
        std::sort(late.calls_ns.rbegin(), late.calls_ns.rend());
        double few_ns = 0;
        for (size_t i = 0; i < late.calls_ns.size() && static_cast<double>(i) < kFewSteps * steps; ++i) {
            few_ns += late.calls_ns[i];
        }
        return few_ns > kMostOfIt * late.all_ns ? CauseClass::kPauses : CauseClass::kSlowRankHost;
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

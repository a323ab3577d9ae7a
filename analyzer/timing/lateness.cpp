// Lateness of each member in each instance. A rank is late by what it comes after its peers, but no more than its own
// time since the instance before exceeds theirs: time inside other collectives is somebody else's. Of another
// recorder's files, where only durations are exact, both are told from them: who is late waits less, in this
// communicator and in all.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "align_clocks.h"
#include "collective_instances.h"
#include "robust.h"
#include "same_work.h"
#include "timing.h"

namespace titan::analyzer {
namespace {

constexpr double kNoiseFactor = 3;
constexpr double kHostNoiseNs = 50'000;
constexpr double kGoodBoundNs = 1'000'000;
constexpr double kDurationNoiseNs = 100'000;
constexpr size_t kMostStretches = 100;
constexpr double kExplains = 0.3;  // share of a rank's lateness, by its wait for a worse one
constexpr size_t kLeastKeys = 10;

// What others waited for a rank in one communicator, in the steps or calls of one key.
struct LateCost {
    double ns = 0;
    double host_ns = 0;  // the host's part
};

// A rank in one communicator.
struct MemberLateness {
    uint32_t communicator = kNoIndex;
    uint32_t axis = 0;
    OpKind op{};
    bool by_device = true;
    double noise_ns = 0;
    double cost_ns = 0;                 // sum of `costs`
    std::map<int64_t, LateCost> costs;  // by key
    size_t compared_calls = 0;
};

using Found = std::vector<MemberLateness>;                     // of one rank
using FoundRanks = std::map<std::pair<int, uint32_t>, Found>;  // by rank and process

const MemberLateness& worst_of(const Found& found) {
    return *std::max_element(found.begin(), found.end(),
                             [](const auto& a, const auto& b) { return a.cost_ns < b.cost_ns; });
}

// By communicator: the rank that is latest there.
std::map<uint32_t, std::pair<double, const Found*>> latest_of(const FoundRanks& all) {
    std::map<uint32_t, std::pair<double, const Found*>> latest;
    for (const auto& [rank, found] : all) {
        for (const MemberLateness& one : found) {
            auto& of_communicator = latest.try_emplace(one.communicator, -1.0, &found).first->second;
            if (one.cost_ns > of_communicator.first) {
                of_communicator = {one.cost_ns, &found};
            }
        }
    }
    return latest;
}

// Streams that wait at the same time wait longer in sum than the job does, so a rank's own time cannot be told from
// that: a rank that waits for a later one in one communicator is late in the others because of it.
bool is_held(const Found& found, const std::map<uint32_t, std::pair<double, const Found*>>& latest) {
    const MemberLateness& own = worst_of(found);
    return std::any_of(found.begin(), found.end(), [&](const MemberLateness& one) {
        const auto& [most_ns, who] = latest.at(one.communicator);
        return one.communicator != own.communicator && worst_of(*who).cost_ns > own.cost_ns &&
               most_ns > kExplains * own.cost_ns;
    });
}

void finish_axis(TimeAxis& axis, const std::map<int64_t, double>& times) {
    std::vector<double> lengths;
    for (const auto& [key, time] : times) {
        if (!axis.keys.empty()) {
            const auto keys = static_cast<double>(axis.steps ? key - axis.keys.back() : 1);
            lengths.push_back((time - axis.when_ns.back()) / keys);
        }
        axis.keys.push_back(key);
        axis.when_ns.push_back(time);
    }
    axis.long_ns = axis.steps ? 0 : quantile_of(lengths, 0.9);
    // A program that marks no steps issues several calls in a burst: what is typical between two of them is not what a
    // call has of the time.
    axis.length_ns = axis.steps || lengths.empty() ? median_of(std::move(lengths))
                                                   : axis.seen_ns() / static_cast<double>(lengths.size());
}

RankTiming timing_of(const Found& found, const std::vector<TimeAxis>& axes) {
    const MemberLateness& worst = worst_of(found);
    RankTiming rank;
    rank.communicator = worst.communicator;
    rank.axis = worst.axis;
    rank.op = worst.op;
    rank.by_device = true;
    const TimeAxis& axis = axes[rank.axis];
    rank.costs.assign(axis.keys.size(), 0);
    rank.host_costs.assign(axis.keys.size(), 0);
    for (const MemberLateness& one : found) {
        rank.compared_calls += one.compared_calls;
        rank.by_device &= one.by_device;
        rank.noise_ns = std::max(rank.noise_ns, one.noise_ns);
        if (one.axis != rank.axis) {
            continue;
        }
        // One delay shows in several communicators one after the other: it is counted in the one where it is largest.
        for (const auto& [key, cost] : one.costs) {
            const auto at =
                static_cast<size_t>(std::lower_bound(axis.keys.begin(), axis.keys.end(), key) - axis.keys.begin());
            if (cost.ns > rank.costs[at]) {
                rank.costs[at] = cost.ns;
                rank.host_costs[at] = cost.host_ns;
            }
        }
    }
    rank.lost_ns = std::accumulate(rank.costs.begin(), rank.costs.end(), 0.0);
    return rank;
}

class Lateness {
  public:
    Lateness(const Run& run, Timing& timing) : run_(run), timing_(timing), roles_(roles_of(run)) {
        for (const Process& process : run.processes) {
            several_.push_back(std::ranges::any_of(process.members, [&](const Member& member) {
                return member.global_rank != process.members.front().global_rank;
            }));
        }
    }

    void find() {
        timing_.axes.emplace_back();
        for (uint32_t c = 0; c < run_.communicators.size(); ++c) {
            measure(c);
        }
        finish_axis(timing_.axes.front(), step_times_);
        const auto latest = latest_of(all_);
        for (const auto& [who, found] : all_) {
            RankTiming& rank = timing_.ranks.emplace_back(timing_of(found, timing_.axes));
            std::tie(rank.rank, rank.process) = who;
            rank.held = is_held(found, latest);
        }
    }

  private:
    enum class Base { kClock, kEnd, kOwn };
    struct Late {
        double arrived_ns = 0;  // time on the instance's common clock
        double own_ns = 0;      // own time since the instance before
        double entered_ns = 0;  // relative like arrived_ns
        double late_ns = 0;
        double host_late_ns = 0;
        uint32_t role = 0;
    };
    using Times = std::map<int64_t, double>;  // by key: when the first member came, on the common clock

    void measure(uint32_t c) {
        const Communicator& communicator = run_.communicators[c];
        const bool by_durations =
            !communicator.members.empty() && !run_.process(communicator.members.front()).sees.moments;
        const std::vector<CollectiveInstance> instances =
            instances_of(run_, communicator, by_durations ? kMostStretches : SIZE_MAX);
        if (instances.size() < kLeastKeys) {
            return;
        }
        const bool steps = instances.back().step >= 0;  // keys are steps, else sequence numbers
        const auto axis = static_cast<uint32_t>(steps ? 0 : timing_.axes.size());
        std::vector<MemberLateness> members(communicator.members.size());
        Times call_times;
        // Where GPUs are watched, a call that one of them was not seen to start says nothing.
        const auto watched = std::count_if(instances.begin(), instances.end(),
                                           [](const CollectiveInstance& one) { return one.on_device; });
        const bool by_device = static_cast<size_t>(watched) * 2 > instances.size();
        for (const CollectiveInstance& instance : instances) {
            if ((instance.step >= 0) == steps && (instance.on_device || !by_device)) {
                judge(instance, communicator, members, steps ? step_times_ : call_times);
            }
        }
        if (!steps) {
            timing_.axes.emplace_back().steps = false;
            finish_axis(timing_.axes.back(), call_times);
        }
        for (size_t m = 0; m < members.size(); ++m) {
            members[m].communicator = c;
            members[m].axis = axis;
            for (const auto& [key, cost] : members[m].costs) {
                members[m].cost_ns += cost.ns;
            }
            const MemberRef ref = communicator.members[m];
            if (members[m].compared_calls != 0) {
                all_[{run_.member(ref).global_rank, ref.process}].push_back(std::move(members[m]));
            }
        }
    }

    // Clocks where they are good, else the end of the instance, which is one moment for all; without ends each rank's
    // own time since the instance before, when all left nearly together.
    Base base_of(const CollectiveInstance& instance, double& noise_ns) const {
        const uint32_t host = timing_.clocks.host_of[instance.participants.front().member.process];
        bool one_host = true;
        bool aligned = true;
        double bound_ns = 0;
        double looked_ns = kHostNoiseNs;
        for (const Participant& participant : instance.participants) {
            const uint32_t process = participant.member.process;
            one_host &= timing_.clocks.host_of[process] == host;
            aligned &= timing_.clocks.aligned(process);
            bound_ns = std::max(bound_ns, timing_.clocks.bound_ns(process));
            if (instance.on_device) {
                looked_ns = std::max(looked_ns, static_cast<double>(resolution_ns(run_.process(participant.member))));
            }
        }
        const bool good = one_host || (aligned && bound_ns <= std::max(looked_ns, kGoodBoundNs));
        noise_ns = looked_ns + (good ? (one_host ? 0 : bound_ns) : looked_ns);
        return good ? Base::kClock : instance.ended ? Base::kEnd : Base::kOwn;
    }

    bool place(const CollectiveInstance& instance, std::vector<Late>& lates, double& noise_ns) const {
        if (!run_.process(instance.participants.front().member).sees.moments) {
            noise_ns = kDurationNoiseNs;
            return place_by_durations(instance, lates);
        }
        const Base base = base_of(instance, noise_ns);
        int64_t base_ns = 0;
        for (const Participant& participant : instance.participants) {
            const Arrival& arrival = *participant.arrival;
            const int64_t arrived_ns = instance.on_device ? arrival.arrived_ns() : arrival.entered_ns;
            const auto common = [&](int64_t time_ns) {
                return base == Base::kEnd ? time_ns - arrival.ended_ns
                                          : timing_.clocks.common_ns(participant.member.process, time_ns);
            };
            base_ns = lates.empty() ? common(arrived_ns) : base_ns;
            Late late;
            late.arrived_ns = static_cast<double>(common(arrived_ns) - base_ns);
            late.entered_ns = static_cast<double>(common(arrival.entered_ns) - base_ns);
            late.role = roles_[participant.member.process];
            late.own_ns = -1;
            if (participant.before != nullptr && !several_[participant.member.process]) {
                const Arrival& before = *participant.before;
                const int64_t since_ns = instance.on_device ? before.arrived_ns() : before.entered_ns;
                // Waits that were told from the GPU's times say nothing of hosts, which run ahead of it.
                const bool same_clock = instance.on_device == run_.process(participant.member).starts_seen;
                const int64_t waited_ns = same_clock ? arrival.waited_ns - before.waited_ns : 0;
                late.own_ns = static_cast<double>(arrived_ns - since_ns - waited_ns);
            }
            if (base == Base::kOwn) {
                late.arrived_ns = late.entered_ns = late.own_ns;
                if (late.own_ns < 0) {
                    return false;
                }
            }
            lates.push_back(late);
        }
        return true;
    }

    // Measures from the end of the previous instance to the end of this one: all members share these moments.
    bool place_by_durations(const CollectiveInstance& instance, std::vector<Late>& lates) const {
        double longest_ns = 0;
        for (const Participant& participant : instance.participants) {
            if (participant.before == nullptr || participant.before->untimed != participant.arrival->untimed) {
                return false;
            }
            const auto since = [&](int64_t Arrival::*sum) {
                return static_cast<double>(participant.arrival->*sum - participant.before->*sum);
            };
            const auto last = [](const Arrival& arrival) {
                return static_cast<double>(arrival.ended_ns - arrival.started_ns);
            };
            Late late;
            late.role = roles_[participant.member.process];
            late.arrived_ns = -since(&Arrival::held_ns);
            late.own_ns = since(&Arrival::waited_ns) + last(*participant.arrival) - last(*participant.before);
            longest_ns = std::max(longest_ns, late.own_ns);
            lates.push_back(late);
        }
        for (Late& late : lates) {
            late.own_ns = longest_ns - late.own_ns;
        }
        return true;
    }

    // Compares with the median of members that do the same work; a rank without peers cannot be late.
    static void compare(std::vector<Late>& lates) {
        std::map<uint32_t, std::vector<Late*>> by_role;
        for (Late& late : lates) {
            by_role[late.role].push_back(&late);
        }
        for (const auto& [role, alike] : by_role) {
            if (alike.size() < 2) {
                continue;
            }
            const auto median = [&alike = alike](double Late::*field) {
                std::vector<double> values;
                for (const Late* const late : alike) {
                    if (field != &Late::own_ns || late->own_ns >= 0) {
                        values.push_back(late->*field);
                    }
                }
                return median_of(std::move(values));
            };
            const double arrived_ns = median(&Late::arrived_ns);
            const double own_ns = median(&Late::own_ns);
            const double entered_ns = median(&Late::entered_ns);
            for (Late* const late : alike) {
                const double late_ns = late->arrived_ns - arrived_ns;
                late->late_ns = late->own_ns < 0 ? late_ns : std::min(late_ns, late->own_ns - own_ns);
                late->host_late_ns = std::max(0.0, late->entered_ns - entered_ns);
            }
        }
    }

    // `members`: in the order of the communicator's.
    void judge(const CollectiveInstance& instance, const Communicator& communicator,
               std::vector<MemberLateness>& members, Times& times) const {
        const bool first = std::all_of(instance.participants.begin(), instance.participants.end(),
                                       [](const Participant& participant) { return participant.before == nullptr; });
        std::vector<Late> lates;
        double noise_ns = 0;
        if (first || !place(instance, lates, noise_ns)) {
            return;
        }
        compare(lates);
        double least = kNoiseFactor * noise_ns;
        for (const Late& late : lates) {
            least = std::max(least, late.late_ns / 2);
        }
        double others = -1e300;  // the last of those that are not late
        for (const Late& late : lates) {
            others = late.late_ns < least ? std::max(others, late.arrived_ns) : others;
        }
        const int64_t key = instance.key();
        int64_t when_ns = INT64_MAX;
        for (size_t i = 0, m = 0; i < lates.size(); ++i, ++m) {
            const MemberRef ref = instance.participants[i].member;
            while (communicator.members[m] != ref) {  // participants come in the order of members
                ++m;
            }
            MemberLateness& member = members[m];
            const double cost_ns =
                lates[i].late_ns < least ? 0 : std::clamp(lates[i].arrived_ns - others, 0.0, lates[i].late_ns);
            LateCost& cost = member.costs[key];
            cost.ns += cost_ns;
            cost.host_ns += std::min(cost_ns, lates[i].host_late_ns);
            member.op = member.compared_calls == 0 ? instance.kind : member.op;
            ++member.compared_calls;
            member.noise_ns = std::max(member.noise_ns, noise_ns);
            member.by_device &= instance.on_device;
            when_ns = std::min(when_ns,
                               timing_.clocks.common_ns(ref.process, instance.participants[i].arrival->arrived_ns()));
        }
        double& first_ns = times.try_emplace(key, static_cast<double>(when_ns)).first->second;
        first_ns = std::min(first_ns, static_cast<double>(when_ns));
    }

    const Run& run_;
    Timing& timing_;
    std::vector<uint32_t> roles_;
    std::vector<bool> several_;  // by process: it is several ranks, and its time belongs to none of them
    Times step_times_;
    FoundRanks all_;
};

}  // namespace

void find_lateness(const Run& run, Timing& timing) { Lateness(run, timing).find(); }

}  // namespace titan::analyzer

// Lateness of each member in each instance. A rank is late by what it comes after its peers, but no more than its own
// time since the instance before exceeds theirs: time inside other collectives is somebody else's. Of another
// recorder's files, where only durations are exact, both are told from them: who is late waits less, in this
// communicator and in all.
#include "lateness.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "align_clocks.h"
#include "collective_instances.h"
#include "robust.h"
#include "same_work.h"

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

struct MemberLateness {
    int rank = -1;
    uint32_t process = kNoIndex;
    OpKind op{};
    bool by_device = true;
    double noise_ns = 0;
    double cost_ns = 0;                 // sum of `costs`
    std::map<int64_t, LateCost> costs;  // by key
    size_t compared_calls = 0;
};

struct CommunicatorLateness {
    bool enough = false;              // calls to compare
    bool steps = true;                // keys are steps, else sequence numbers
    std::map<int64_t, double> times;  // by key: when the first member came, on the common clock
    std::vector<MemberLateness> members;
};

struct InCommunicator {
    uint32_t communicator = kNoIndex;
    uint32_t axis = 0;
    const MemberLateness* lateness = nullptr;

    double cost_ns() const { return lateness->cost_ns; }
};

struct Found {
    std::vector<InCommunicator> in;
    bool held = false;

    const InCommunicator& worst() const {
        return *std::max_element(in.begin(), in.end(),
                                 [](const auto& a, const auto& b) { return a.cost_ns() < b.cost_ns(); });
    }
};

using FoundRanks = std::map<std::pair<int, uint32_t>, Found>;  // by rank and process

// Streams that wait at the same time wait longer in sum than the job does, so a rank's own time cannot be told from
// that: a rank that waits for a later one in one communicator is late in the others because of it.
void find_held(FoundRanks& all) {
    std::map<uint32_t, std::pair<double, const Found*>> latest;  // key: communicator
    for (const auto& [rank, found] : all) {
        for (const InCommunicator& one : found.in) {
            auto& [most_ns, who] = latest.try_emplace(one.communicator, -1.0, &found).first->second;
            if (one.cost_ns() > most_ns) {
                most_ns = one.cost_ns();
                who = &found;
            }
        }
    }
    for (auto& [rank, found] : all) {
        const InCommunicator& own = found.worst();
        found.held = std::any_of(found.in.begin(), found.in.end(), [&](const InCommunicator& one) {
            const auto& [most_ns, who] = latest.at(one.communicator);
            return one.communicator != own.communicator && who->worst().cost_ns() > own.cost_ns() &&
                   most_ns > kExplains * own.cost_ns();
        });
    }
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

RankTiming timing_of(std::pair<int, uint32_t> rank_and_process, const Found& found, const std::vector<TimeAxis>& axes) {
    const InCommunicator& worst = found.worst();
    RankTiming rank;
    std::tie(rank.rank, rank.process) = rank_and_process;
    rank.communicator = worst.communicator;
    rank.axis = worst.axis;
    rank.op = worst.lateness->op;
    rank.by_device = true;
    rank.held = found.held;
    for (const InCommunicator& one : found.in) {
        const MemberLateness& lateness = *one.lateness;
        rank.compared_calls += lateness.compared_calls;
        rank.by_device &= lateness.by_device;
        rank.noise_ns = std::max(rank.noise_ns, lateness.noise_ns);
    }
    const TimeAxis& axis = axes[rank.axis];
    rank.costs.assign(axis.keys.size(), 0);
    rank.host_costs.assign(axis.keys.size(), 0);
    // One delay shows in several communicators one after the other: it is counted in the one where it is largest.
    for (const InCommunicator& one : found.in) {
        if (one.axis != rank.axis) {
            continue;
        }
        for (const auto& [key, cost] : one.lateness->costs) {
            const auto at = std::lower_bound(axis.keys.begin(), axis.keys.end(), key) - axis.keys.begin();
            if (cost.ns > rank.costs[static_cast<size_t>(at)]) {
                rank.costs[static_cast<size_t>(at)] = cost.ns;
                rank.host_costs[static_cast<size_t>(at)] = cost.host_ns;
            }
        }
    }
    for (const double cost : rank.costs) {
        rank.lost_ns += cost;
    }
    return rank;
}

class Lateness {
  public:
    // Keeps references to both.
    Lateness(const Run& run, const Clocks& clocks);

    // Fills axes and ranks, but for shapes and parts.
    void tell(Timing& timing) const;

  private:
    enum class Base { kClock, kEnd, kOwn };
    struct Late {
        double arrived_ns = 0;  // time on the instance's common clock
        double own_ns = 0;      // own time since the instance before
        double entered_ns = 0;  // relative like arrived_ns
        double late_ns = 0;
        uint32_t role = 0;
    };

    CommunicatorLateness measure(const Communicator& communicator) const;
    Base base_of(const CollectiveInstance& instance, double& noise_ns) const;
    bool place(const CollectiveInstance& instance, std::vector<Late>& lates, double& noise_ns) const;
    bool place_by_durations(const CollectiveInstance& instance, std::vector<Late>& lates) const;
    static void compare(std::vector<Late>& lates, std::vector<double>& host_late);
    void judge(const CollectiveInstance& instance, const Communicator& communicator,
               CommunicatorLateness& lateness) const;

    const Run& run_;
    const Clocks& clocks_;
    std::vector<uint32_t> roles_;
    std::vector<bool> several_;  // the process is several ranks: its time belongs to none of them
};

Lateness::Lateness(const Run& run, const Clocks& clocks) : run_(run), clocks_(clocks), roles_(roles_of(run)) {
    for (const Process& process : run.processes) {
        int first = INT32_MIN;
        several_.push_back(false);
        for (const Member& member : process.members) {
            several_.back() = several_.back() || (first != INT32_MIN && member.global_rank != first);
            first = member.global_rank;
        }
    }
}

void Lateness::tell(Timing& timing) const {
    std::deque<CommunicatorLateness> measured;
    std::map<int64_t, double> step_times;
    FoundRanks all;
    timing.axes.emplace_back();
    for (uint32_t c = 0; c < run_.communicators.size(); ++c) {
        const CommunicatorLateness& one = measured.emplace_back(measure(run_.communicators[c]));
        if (!one.enough) {
            continue;
        }
        const auto axis = static_cast<uint32_t>(one.steps ? 0 : timing.axes.size());
        if (one.steps) {
            for (const auto& [step, when_ns] : one.times) {
                double& first_ns = step_times.try_emplace(step, when_ns).first->second;
                first_ns = std::min(first_ns, when_ns);
            }
        } else {
            timing.axes.emplace_back();
            timing.axes.back().steps = false;
            finish_axis(timing.axes.back(), one.times);
        }
        for (const MemberLateness& member : one.members) {
            if (member.compared_calls != 0) {
                all[{member.rank, member.process}].in.push_back({c, axis, &member});
            }
        }
    }
    finish_axis(timing.axes.front(), step_times);
    find_held(all);
    for (const auto& [rank, found] : all) {
        timing.ranks.push_back(timing_of(rank, found, timing.axes));
    }
}

CommunicatorLateness Lateness::measure(const Communicator& communicator) const {
    CommunicatorLateness lateness;
    const bool by_durations = !communicator.members.empty() && !run_.process(communicator.members.front()).sees.moments;
    const std::vector<CollectiveInstance> instances =
        instances_of(run_, communicator, by_durations ? kMostStretches : SIZE_MAX);
    lateness.enough = instances.size() >= kLeastKeys;
    if (!lateness.enough) {
        return lateness;
    }
    lateness.steps = instances.back().step >= 0;
    for (const MemberRef ref : communicator.members) {
        MemberLateness& member = lateness.members.emplace_back();
        member.rank = run_.member(ref).global_rank;
        member.process = ref.process;
    }
    // Where GPUs are watched, a call that one of them was not seen to start says nothing.
    const auto watched =
        std::count_if(instances.begin(), instances.end(), [](const CollectiveInstance& one) { return one.on_device; });
    const bool by_device = static_cast<size_t>(watched) * 2 > instances.size();
    for (const CollectiveInstance& instance : instances) {
        if ((instance.step >= 0) == lateness.steps && (instance.on_device || !by_device)) {
            judge(instance, communicator, lateness);
        }
    }
    for (MemberLateness& member : lateness.members) {
        for (const auto& [key, cost] : member.costs) {
            member.cost_ns += cost.ns;
        }
    }
    return lateness;
}

// Clocks where they are good, else the end of the instance, which is one moment for all; without ends each rank's
// own time since the instance before, when all left nearly together.
Lateness::Base Lateness::base_of(const CollectiveInstance& instance, double& noise_ns) const {
    const uint32_t host = clocks_.host_of[instance.participants.front().member.process];
    bool one_host = true;
    bool aligned = true;
    double bound_ns = 0;
    double looked_ns = kHostNoiseNs;
    for (const Participant& participant : instance.participants) {
        const uint32_t process = participant.member.process;
        one_host &= clocks_.host_of[process] == host;
        aligned &= clocks_.aligned(process);
        bound_ns = std::max(bound_ns, clocks_.bound_ns(process));
        if (instance.on_device) {
            looked_ns = std::max(looked_ns, static_cast<double>(resolution_ns(run_.process(participant.member))));
        }
    }
    const bool good = one_host || (aligned && bound_ns <= std::max(looked_ns, kGoodBoundNs));
    noise_ns = looked_ns + (good ? (one_host ? 0 : bound_ns) : looked_ns);
    return good ? Base::kClock : instance.ended ? Base::kEnd : Base::kOwn;
}

bool Lateness::place(const CollectiveInstance& instance, std::vector<Late>& lates, double& noise_ns) const {
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
                                      : clocks_.common_ns(participant.member.process, time_ns);
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
bool Lateness::place_by_durations(const CollectiveInstance& instance, std::vector<Late>& lates) const {
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
void Lateness::compare(std::vector<Late>& lates, std::vector<double>& host_late) {
    std::map<uint32_t, std::vector<size_t>> by_role;
    for (size_t i = 0; i < lates.size(); ++i) {
        by_role[lates[i].role].push_back(i);
    }
    host_late.assign(lates.size(), 0);
    for (const auto& [role, participants] : by_role) {
        if (participants.size() < 2) {
            continue;
        }
        const auto median = [&](double Late::*field) {
            std::vector<double> values;
            values.reserve(participants.size());
            for (const size_t i : participants) {
                if (field != &Late::own_ns || lates[i].own_ns >= 0) {
                    values.push_back(lates[i].*field);
                }
            }
            return median_of(std::move(values));
        };
        const double arrived_ns = median(&Late::arrived_ns);
        const double own_ns = median(&Late::own_ns);
        const double entered_ns = median(&Late::entered_ns);
        for (const size_t i : participants) {
            const double late_ns = lates[i].arrived_ns - arrived_ns;
            lates[i].late_ns = lates[i].own_ns < 0 ? late_ns : std::min(late_ns, lates[i].own_ns - own_ns);
            host_late[i] = std::max(0.0, lates[i].entered_ns - entered_ns);
        }
    }
}

void Lateness::judge(const CollectiveInstance& instance, const Communicator& communicator,
                     CommunicatorLateness& lateness) const {
    const bool first = std::all_of(instance.participants.begin(), instance.participants.end(),
                                   [](const Participant& participant) { return participant.before == nullptr; });
    std::vector<Late> lates;
    lates.reserve(instance.participants.size());
    double noise_ns = 0;
    if (first || !place(instance, lates, noise_ns)) {
        return;
    }
    std::vector<double> host_late;
    compare(lates, host_late);
    double worst = 0;
    for (const Late& late : lates) {
        worst = std::max(worst, late.late_ns);
    }
    const double least = std::max(kNoiseFactor * noise_ns, worst / 2);
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
        MemberLateness& member = lateness.members[m];
        const double cost_ns =
            lates[i].late_ns < least ? 0 : std::clamp(lates[i].arrived_ns - others, 0.0, lates[i].late_ns);
        LateCost& cost = member.costs[key];
        cost.ns += cost_ns;
        cost.host_ns += std::min(cost_ns, host_late[i]);
        member.op = member.compared_calls == 0 ? instance.kind : member.op;
        ++member.compared_calls;
        member.noise_ns = std::max(member.noise_ns, noise_ns);
        member.by_device &= instance.on_device;
        when_ns = std::min(when_ns, clocks_.common_ns(ref.process, instance.participants[i].arrival->arrived_ns()));
    }
    double& first_ns = lateness.times.try_emplace(key, static_cast<double>(when_ns)).first->second;
    first_ns = std::min(first_ns, static_cast<double>(when_ns));
}

}  // namespace

void find_lateness(const Run& run, Timing& timing) { Lateness(run, timing.clocks).tell(timing); }

}  // namespace titan::analyzer

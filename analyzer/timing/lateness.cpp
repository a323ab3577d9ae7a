// Lateness of each member in each instance. A rank is late by what it comes after its peers, but no more than its own
// time since the instance before exceeds theirs: time inside other collectives is somebody else's. Of another
// recorder's files, where only durations are exact, both are told from them: who is late waits less, in this
// communicator and in all.
#include "lateness.h"

#include <algorithm>
#include <map>
#include <unordered_map>

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

struct Cost {
    int64_t key = 0;
    double ns = 0;
    double host_ns = 0;  // the host's part
};

struct Costs {
    std::vector<Cost> of_key;  // sorted

    // Keys come in their order, but for what damage makes.
    Cost& of(int64_t key) {
        if (of_key.empty() || of_key.back().key < key) {
            return of_key.emplace_back(Cost{key});
        }
        const auto at = std::lower_bound(of_key.begin(), of_key.end(), key,
                                         [](const Cost& cost, int64_t wanted) { return cost.key < wanted; });
        return at->key == key ? *at : *of_key.insert(at, Cost{key});
    }
    double sum() const {
        double all = 0;
        for (const Cost& cost : of_key) {
            all += cost.ns;
        }
        return all;
    }
};

struct Late {
    double arrived_ns = 0;  // time on the instance's common clock
    double own_ns = 0;      // own time since the instance before
    double entered_ns = 0;  // relative like arrived_ns
    double late_ns = 0;
    uint32_t role = 0;
};

class Lateness {
  public:
    Lateness(const Run& run, const std::vector<bool>& excluded, Timing& timing)
        : run_(run), excluded_(excluded), timing_(timing), roles_(roles_of(run)), found_(run.processes.size()) {
        for (uint32_t p = 0; p < run.processes.size(); ++p) {
            int first = INT32_MIN;
            several_.push_back(false);
            for (const Member& member : run.processes[p].members) {
                several_.back() = several_.back() || (first != INT32_MIN && member.global_rank != first);
                first = member.global_rank;
            }
        }
    }

    void measure() {
        timing_.axes.emplace_back();
        for (uint32_t c = 0; c < run_.communicators.size(); ++c) {
            measure(c);
        }
        finish_axis(timing_.axes.front(), step_times_);
        std::vector<Found*> all;
        for (std::vector<Found>& of_process : found_) {
            for (Found& found : of_process) {
                all.push_back(&found);
            }
        }
        std::sort(all.begin(), all.end(), [](const Found* a, const Found* b) {
            return std::pair(a->rank, a->process) < std::pair(b->rank, b->process);
        });
        find_held(all);
        for (Found* found : all) {
            report(*found);
        }
    }

  private:
    struct OfCommunicator {
        uint32_t communicator = kNoIndex;
        uint32_t axis = 0;
        Costs costs;
        OpKind op{};
    };
    struct Found {
        int rank = -1;
        uint32_t process = kNoIndex;
        std::vector<OfCommunicator> in;
        std::vector<double> late_ns;
        double noise_ns = 0;
        double cost_ns = 0;  // in the worst
        bool by_device = true;
        bool held = false;

        const OfCommunicator& worst() const {
            return *std::max_element(in.begin(), in.end(),
                                     [](const auto& a, const auto& b) { return a.costs.sum() < b.costs.sum(); });
        }
    };

    // The members that are left if the files of the excluded ones were lost.
    Communicator known_of(const Communicator& whole) const {
        Communicator known;
        std::copy_if(whole.members.begin(), whole.members.end(), std::back_inserter(known.members),
                     [&](const MemberRef ref) { return excluded_.empty() || !excluded_[ref.process]; });
        return known;
    }

    void measure(uint32_t index) {
        const Communicator communicator = known_of(run_.communicators[index]);
        const bool by_durations =
            !communicator.members.empty() && !run_.process(communicator.members.front()).sees.moments;
        const std::vector<CollectiveInstance> instances =
            instances_of(run_, communicator, by_durations ? kMostStretches : SIZE_MAX);
        if (instances.size() < kLeastKeys) {
            return;
        }
        const bool steps = instances.back().step >= 0;
        std::map<int64_t, double> own_times;
        std::map<int64_t, double>& times = steps ? step_times_ : own_times;
        const auto axis = static_cast<uint32_t>(steps ? 0 : timing_.axes.size());
        if (!steps) {
            timing_.axes.emplace_back();
            timing_.axes.back().steps = false;
        }
        // Where GPUs are watched, a call that one of them was not seen to start says nothing.
        const auto watched = std::count_if(instances.begin(), instances.end(),
                                           [](const CollectiveInstance& one) { return one.on_device; });
        const bool by_device = static_cast<size_t>(watched) * 2 > instances.size();
        for (const CollectiveInstance& instance : instances) {
            if ((instance.step >= 0) == steps && (instance.on_device || !by_device)) {
                judge(instance, index, axis, times);
            }
        }
        if (!steps) {
            finish_axis(timing_.axes.back(), own_times);
        }
    }

    static void finish_axis(TimeAxis& axis, const std::map<int64_t, double>& times) {
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
        axis.length_ns = median_of(std::move(lengths));
    }

    enum class Base { kClock, kEnd, kOwn };

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
    static void compare(std::vector<Late>& lates, std::vector<double>& host_late) {
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

    void judge(const CollectiveInstance& instance, uint32_t index, uint32_t axis, std::map<int64_t, double>& times) {
        const bool first = std::all_of(instance.participants.begin(), instance.participants.end(),
                                       [](const Participant& participant) { return participant.before == nullptr; });
        std::vector<Late> lates;
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
        int64_t when_ns = INT64_MAX;
        for (size_t i = 0; i < lates.size(); ++i) {
            const MemberRef ref = instance.participants[i].member;
            const double cost_ns =
                lates[i].late_ns < least ? 0 : std::clamp(lates[i].arrived_ns - others, 0.0, lates[i].late_ns);
            note(found_of(ref), index, axis, instance, lates[i].late_ns, cost_ns, std::min(cost_ns, host_late[i]),
                 noise_ns);
            when_ns = std::min(when_ns,
                               timing_.clocks.common_ns(ref.process, instance.participants[i].arrival->arrived_ns()));
        }
        const auto [time, inserted] = times.try_emplace(instance.key(), static_cast<double>(when_ns));
        time->second = std::min(time->second, static_cast<double>(when_ns));
    }

    Found& found_of(MemberRef ref) {
        const int rank = run_.member(ref).global_rank;
        std::vector<Found>& of_process = found_[ref.process];
        const auto found =
            std::find_if(of_process.begin(), of_process.end(), [&](const Found& one) { return one.rank == rank; });
        if (found != of_process.end()) {
            return *found;
        }
        Found& added = of_process.emplace_back();
        added.rank = rank;
        added.process = ref.process;
        return added;
    }

    static void note(Found& found, uint32_t index, uint32_t axis, const CollectiveInstance& instance, double late_ns,
                     double cost_ns, double host_ns, double noise_ns) {
        if (found.in.empty() || found.in.back().communicator != index) {
            found.in.push_back({index, axis, {}, instance.kind});
        }
        Cost& cost = found.in.back().costs.of(instance.key());
        cost.ns += cost_ns;
        cost.host_ns += host_ns;
        found.late_ns.push_back(std::max(0.0, late_ns));
        found.noise_ns = std::max(found.noise_ns, noise_ns);
        found.by_device &= instance.on_device;
    }

    // Streams that wait at the same time wait longer in sum than the job does, so a rank's own time cannot be told from
    // that: a rank that waits for a later one in one communicator is late in the others because of it.
    static void find_held(const std::vector<Found*>& all) {
        std::map<uint32_t, std::pair<double, const Found*>> latest;  // key: communicator
        for (Found* found : all) {
            found->cost_ns = found->worst().costs.sum();
            for (const OfCommunicator& one : found->in) {
                auto& [most_ns, who] = latest.try_emplace(one.communicator, -1.0, found).first->second;
                if (const double ns = one.costs.sum(); ns > most_ns) {
                    most_ns = ns;
                    who = found;
                }
            }
        }
        for (Found* found : all) {
            const uint32_t late_in = found->worst().communicator;
            found->held = std::any_of(found->in.begin(), found->in.end(), [&](const OfCommunicator& one) {
                const auto& [most_ns, who] = latest.at(one.communicator);
                return one.communicator != late_in && who->cost_ns > found->cost_ns &&
                       most_ns > kExplains * found->cost_ns;
            });
        }
    }

    void report(Found& found) {
        const OfCommunicator& best = found.worst();
        RankTiming rank;
        rank.rank = found.rank;
        rank.process = found.process;
        rank.communicator = best.communicator;
        rank.axis = best.axis;
        rank.op = best.op;
        rank.compared_calls = found.late_ns.size();
        rank.by_device = found.by_device;
        rank.held = found.held;
        rank.noise_ns = found.noise_ns;
        rank.p99_late_ns = quantile_of(found.late_ns, 0.99);
        rank.median_late_ns = median_of(std::move(found.late_ns));
        const TimeAxis& axis = timing_.axes[rank.axis];
        rank.costs.assign(axis.keys.size(), 0);
        rank.host_costs.assign(axis.keys.size(), 0);
        // One delay shows in several communicators one after the other: it is counted in the one where it is largest.
        for (const OfCommunicator& one : found.in) {
            if (one.axis != rank.axis) {
                continue;
            }
            for (const Cost& cost : one.costs.of_key) {
                const auto at = std::lower_bound(axis.keys.begin(), axis.keys.end(), cost.key) - axis.keys.begin();
                if (cost.ns > rank.costs[static_cast<size_t>(at)]) {
                    rank.costs[static_cast<size_t>(at)] = cost.ns;
                    rank.host_costs[static_cast<size_t>(at)] = cost.host_ns;
                }
            }
        }
        for (const double cost : rank.costs) {
            rank.lost_ns += cost;
        }
        timing_.ranks.push_back(std::move(rank));
    }

    const Run& run_;
    const std::vector<bool>& excluded_;  // index: process; empty: none
    Timing& timing_;
    std::vector<uint32_t> roles_;
    std::vector<bool> several_;  // the process is several ranks: its time belongs to none of them
    std::map<int64_t, double> step_times_;
    std::vector<std::vector<Found>> found_;  // by process: of each of its ranks
};

}  // namespace

void measure_lateness(const Run& run, Timing& timing, const std::vector<bool>& excluded) {
    Lateness(run, excluded, timing).measure();
}

}  // namespace titan::analyzer

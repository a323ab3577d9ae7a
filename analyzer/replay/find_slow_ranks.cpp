// Ranks that take longer than those that do the same work, and hosts of which all ranks do; and what of them is slow.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cause_search.h"
#include "formats/layout/clock_limits.h"
#include "health_of.h"
#include "host/words.h"
#include "patterns.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastExcess = 0.02;    // share of a step
constexpr double kAboveSpread = 2;       // times what ranks differ by
constexpr double kMostOfHost = 0.7;      // share of a host's ranks
constexpr double kHostsPart = 0.4;       // share of the excess that the host was busy longer
constexpr double kSlowClock = 0.93;      // of the clock of the others' GPUs
constexpr double kDelayed = 0.1;         // share of the time that threads waited for a processor
constexpr double kMoreMemoryMib = 1024;  // on the GPU than its peers have
constexpr double kPressure = 20;         // percent of the time that some task of the host waits for a processor

struct SlowRank {
    size_t rank;  // place in the graph
    LateShape shape;
    double excess_ns;  // in its slow steps, typically
};

double reading(const Process& process, std::string_view kind, std::string_view what) {
    for (const DeviceHealth& device : health_of(process)) {
        if (device.kind == kind && device.find(what) != nullptr) {
            return device.find(what)->value;
        }
    }
    return -1;
}

double cpu_pressure(const Process& process) { return reading(process, "host", "cpu_pressure_percent"); }

double delayed_share(const Process& process) {
    const auto run_ns = static_cast<double>(process.processors.run_ns);
    const auto delay_ns = static_cast<double>(process.processors.run_delay_ns);
    return delay_ns <= 0 ? 0 : delay_ns / (run_ns + delay_ns);
}

class SlowRanks {
  public:
    SlowRanks(CauseSearch& search, bool across_hosts)
        : search_(search),
          across_hosts_(across_hosts),
          usual_ns_(search.usual_of_peers(search.left_ns)),
          usual_busy_ns_(search.usual_of_peers(search.work.of(HostPart::kBusy))),
          usual_host_late_ns_(search.usual_of_peers(search.work.host_late_ns)) {
        if (across_hosts) {
            compare_hosts();
        }
    }

    void find() {
        find_ranks();
        std::map<std::string, std::vector<SlowRank>> by_host;
        for (const SlowRank& slow : slow_) {
            by_host[search_.process(slow.rank).host].push_back(slow);
        }
        for (const auto& [host, slow] : by_host) {
            size_t of_host = 0;
            for (size_t r = 0; r < search_.ranks(); ++r) {
                of_host += search_.process(r).host == host ? 1 : 0;
            }
            if (slow.size() >= 2 && static_cast<double>(slow.size()) >= kMostOfHost * static_cast<double>(of_host) &&
                of_host < search_.ranks() && (!across_hosts_ || is_of_host(slow.front()))) {
                tell(slow, true);
                continue;
            }
            for (size_t i = 0; i < slow.size() && !across_hosts_; ++i) {
                tell({slow[i]}, false);
            }
        }
    }

  private:
    double excess_ns(size_t r, size_t s) const {
        if (!across_hosts_) {
            return search_.left_ns.at(r, s) - usual_ns_.at(r, s);
        }
        return own_of_host_[r] ? std::min(search_.left_ns.at(r, s), search_.work.host_late_ns.at(r, s)) -
                                     usual_host_late_ns_.at(r, s)
                               : 0;
    }

    // Where all that do a rank's work are on its host, what the host does is compared with that of all ranks.
    void compare_hosts() {
        std::map<uint32_t, std::set<std::string>> hosts;  // by role
        std::set<std::string> all;
        for (size_t r = 0; r < search_.ranks(); ++r) {
            hosts[search_.graph.roles[r]].insert(search_.process(r).host);
            all.insert(search_.process(r).host);
        }
        for (size_t r = 0; r < search_.ranks(); ++r) {
            own_of_host_.push_back(all.size() > 1 && hosts[search_.graph.roles[r]].size() == 1);
        }
        for (size_t s = 0; s < search_.steps(); ++s) {
            const double late_ns = median_of(search_.work.host_late_ns.of_step(s));
            const double busy_ns = median_of(search_.work.of(HostPart::kBusy).of_step(s));
            for (size_t r = 0; r < search_.ranks(); ++r) {
                usual_host_late_ns_.at(r, s) = late_ns;
                usual_busy_ns_.at(r, s) = busy_ns;
            }
        }
    }

    void find_ranks() {
        std::vector<std::vector<double>> costs(search_.ranks());
        std::vector<double> all;
        for (size_t r = 0; r < search_.ranks(); ++r) {
            for (size_t s = 0; s < search_.steps(); ++s) {
                costs[r].push_back(std::max(0.0, excess_ns(r, s)));
                all.push_back(excess_ns(r, s));
            }
        }
        ShapeLimits limits;
        limits.least_ns = std::max(kLeastExcess * search_.step_ns(), kAboveSpread * spread_of(all));
        limits.length_ns = search_.step_ns();
        limits.seen_ns = search_.step_ns() * static_cast<double>(search_.steps());
        limits.trials = static_cast<double>(search_.ranks());
        std::vector<double> late;
        for (const std::vector<double>& own : costs) {
            late.push_back(static_cast<double>(
                std::count_if(own.begin(), own.end(), [&](double ns) { return ns >= limits.least_ns; })));
        }
        limits.base_rate = std::max(limits.base_rate, quantile_of(late, 0.75) / static_cast<double>(search_.steps()));
        for (size_t r = 0; r < search_.ranks(); ++r) {
            LateShape shape = shape_of(costs[r], limits);
            if (shape.pattern == LatePattern::kNone && !across_hosts_) {
                shape = known_shape(r);
            }
            if (shape.pattern != LatePattern::kNone) {
                slow_.push_back({r, shape, shape.typical_ns});
            }
        }
    }

    // As its lateness in collectives tells, in steps of the graph.
    LateShape known_shape(size_t r) const {
        for (const RankTiming& known : search_.timing.ranks) {
            const TimeAxis& axis = search_.timing.axes[known.axis];
            if (known.process != search_.graph.processes[r] || known.shape.pattern == LatePattern::kNone ||
                !axis.steps) {
                continue;
            }
            LateShape shape = known.shape;
            const auto step_of = [&](size_t key) {
                return static_cast<size_t>(std::clamp<int64_t>(axis.keys[key] - search_.graph.first_step, 0,
                                                               static_cast<int64_t>(search_.steps()) - 1));
            };
            shape.first = step_of(known.shape.first);
            shape.last = step_of(known.shape.last);
            return shape;
        }
        return {};
    }

    bool is_struck(const SlowRank& slow, size_t s) const {
        const LateShape& shape = slow.shape;
        return s >= shape.first && s <= shape.last &&
               (shape.pattern == LatePattern::kPersistent || excess_ns(slow.rank, s) > shape.typical_ns / 4);
    }

    void tell(const std::vector<SlowRank>& slow, bool whole_host) {
        RankSteps amounts_ns(search_.ranks(), search_.steps());
        SlowCause cause;
        size_t first = search_.steps();
        for (const SlowRank& one : slow) {
            for (size_t s = 0; s < search_.steps(); ++s) {
                amounts_ns.at(one.rank, s) = is_struck(one, s) ? std::max(0.0, excess_ns(one.rank, s)) : 0;
            }
            first = std::min(first, one.shape.first);
            cause.ranks.push_back(search_.rank_number(one.rank));
        }
        std::sort(cause.ranks.begin(), cause.ranks.end());
        cause.since_step = search_.since(first);
        const std::string& host = search_.process(slow.front().rank).host;
        if (!host.empty()) {
            cause.hosts = {host};
        }
        const bool of_host = is_of_host(slow.front());
        cause.of_class = whole_host ? CauseClass::kSlowHost
                         : of_host  ? host_class(slow.front(), cause)
                                    : gpu_class(slow.front(), cause);
        say_excess(slow, cause);
        cause.evidence.emplace_back(
            of_host ? "its host makes the calls late, and is busy for longer than those of its peers"
                    : "its host makes the calls in time, but its GPU comes to them late");
        search_.add(std::move(cause), amounts_ns);
    }

    void say_excess(const std::vector<SlowRank>& slow, SlowCause& cause) const {
        const LateShape& shape = slow.front().shape;
        const std::string when = shape.pattern == LatePattern::kPersistent ? "in each step"
                                 : shape.pattern == LatePattern::kPeriodic
                                     ? fmt::format("every {} steps", shape.every)
                                     : fmt::format("in {} of {} steps", shape.hits, search_.graph.steps);
        cause.evidence.insert(cause.evidence.begin(),
                              fmt::format("works {} longer than the ranks that do the same, {} (median)",
                                          fine_duration_text(slow.front().excess_ns), when));
    }

    // The host was late with its calls for that long, or was busy for longer than its peers.
    bool is_of_host(const SlowRank& slow) const {
        double all_ns = 0, busy_ns = 0, late_ns = 0;
        for (size_t s = 0; s < search_.steps(); ++s) {
            if (is_struck(slow, s)) {
                all_ns += excess_ns(slow.rank, s);
                busy_ns += search_.work.of(HostPart::kBusy).at(slow.rank, s) - usual_busy_ns_.at(slow.rank, s);
                late_ns += search_.work.host_late_ns.at(slow.rank, s) - usual_host_late_ns_.at(slow.rank, s);
            }
        }
        return late_ns >= kHostsPart * all_ns && (!search_.work.has_profiles || busy_ns >= kHostsPart * all_ns);
    }

    template <typename Value>
    double usual_of_others(size_t rank, const Value& value) const {
        std::vector<double> others;
        for (size_t r = 0; r < search_.ranks(); ++r) {
            if (r != rank && value(search_.process(r)) >= 0) {
                others.push_back(value(search_.process(r)));
            }
        }
        return others.empty() ? -1 : median_of(std::move(others));
    }

    CauseClass gpu_class(const SlowRank& slow, SlowCause& cause) const {
        const Process& process = search_.process(slow.rank);
        const double limits = reading(process, "gpu", "clock_limits");
        const uint64_t bits = limits < 0 ? 0 : static_cast<uint64_t>(limits) & format::fault_limits();
        const auto clock = [](const Process& of) { return reading(of, "gpu", "sm_clock_mhz"); };
        const double own_mhz = clock(process);
        const double others_mhz = usual_of_others(slow.rank, clock);
        if (own_mhz > 0 && others_mhz > 0) {
            cause.evidence.push_back(
                fmt::format("its GPU runs at {:.0f} MHz, those of the others at {:.0f}", own_mhz, others_mhz));
        }
        if (bits != 0) {
            cause.evidence.push_back(fmt::format("its GPU is throttled ({})", format::clock_limit_words(bits)));
        }
        if (bits != 0 || (own_mhz > 0 && others_mhz > 0 && own_mhz < kSlowClock * others_mhz)) {
            return CauseClass::kThrottledGpu;
        }
        const auto memory = [](const Process& of) { return reading(of, "gpu", "memory_used_mib"); };
        const double own_mib = memory(process);
        const double others_mib = usual_of_others(slow.rank, memory);
        if (own_mib >= 0 && others_mib >= 0 && own_mib > others_mib + kMoreMemoryMib) {
            cause.evidence.push_back(fmt::format(
                "{:.0f} MiB of its GPU are in use, {:.0f} MiB of the others': another process may run there", own_mib,
                others_mib));
            return CauseClass::kOtherProcess;
        }
        return CauseClass::kSlowRankGpu;
    }

    CauseClass host_class(const SlowRank& slow, SlowCause& cause) const {
        const Process& process = search_.process(slow.rank);
        const double share = delayed_share(process);
        if (share >= kDelayed && share > 2 * usual_of_others(slow.rank, delayed_share)) {
            cause.evidence.push_back(fmt::format(
                "its threads waited for a processor for {:.0f}% of the time that they were ready to run", 100 * share));
            return CauseClass::kOtherProcess;
        }
        const double pressure = cpu_pressure(process);
        if (pressure >= kPressure && pressure > 2 * usual_of_others(slow.rank, cpu_pressure)) {
            cause.evidence.push_back(
                fmt::format("tasks of its host wait for a processor {:.0f}% of the time", pressure));
            return CauseClass::kOtherProcess;
        }
        return CauseClass::kSlowRankHost;
    }

    CauseSearch& search_;
    const bool across_hosts_;
    const RankSteps usual_ns_;
    RankSteps usual_busy_ns_;
    RankSteps usual_host_late_ns_;
    std::vector<bool> own_of_host_;  // by rank: nobody on another host does its work
    std::vector<SlowRank> slow_;
};

}  // namespace

void find_slow_ranks(CauseSearch& search) {
    if (!search.graph.has_unseen()) {  // else nobody knows whether a host was late
        SlowRanks(search, true).find();
    }
    SlowRanks(search, false).find();
}

}  // namespace titan::analyzer

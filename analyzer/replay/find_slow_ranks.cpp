// Hosts of which all ranks take longer than those that do the same on other hosts, and ranks that take longer than
// those beside them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/words.h"
#include "patterns.h"
#include "peers.h"
#include "robust.h"
#include "what_is_slow.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastExcess = 0.02;          // share of a step
constexpr double kLeastExcessFilledIn = 0.04;  // where times of other steps were filled in
constexpr double kAboveSpread = 2;             // times what steps of one rank differ by
constexpr double kMostOfHost = 0.7;            // share of a host's ranks
constexpr double kHalfOfHost = 0.5;   // where it has stages of a pipeline, one of which hides that the other is late
constexpr double kLikeItsHost = 0.4;  // share of the mean of its host's ranks
constexpr size_t kFewSuspects = 32;
constexpr double kMostlyHost = 0.4;    // share of the excess that the host was busy longer
constexpr double kLeastLeft = 0.25;    // share of a step that is left without what was told before
constexpr size_t kFewLong = 6;         // steps in a row that all take so much longer are no chance
constexpr double kMoreLaunches = 1.4;  // times as many as its peers
constexpr size_t kAsOften = 3;         // long pauses are a rank's own if no other has a third as many

// Ranks that are judged as one: a rank, or all of a host.
struct Suspect {
    std::vector<size_t> ranks;      // places in the graph
    std::vector<double> excess_ns;  // by step; of several ranks the mean
    LateShape shape;
    bool is_by_pauses = false;  // the shape is that of its host's pauses, most of which its GPU does not feel
};

class SlowRanks {
  public:
    // `by_hosts`: only what hosts tell, whose records are whole where GPUs are watched in some steps alone.
    SlowRanks(CauseSearch& search, Against against, bool by_hosts = false)
        : search_(search),
          of_hosts_(against == Against::kOtherHosts),
          peers_(search, against),
          work_ns_(peers_.excess_of(search.left_ns)),
          host_late_ns_(peers_.excess_of(search.work.host_late_ns)),
          behind_ns_(peers_.excess_of(search.work.behind_ns)),
          keeps_up_ns_(peers_.excess_of(search.work.keeps_up_ns)),
          busy_ns_(peers_.excess_of(search.work.of(HostPart::kBusy))),
          gap_ns_(peers_.excess_of(search.work.of(HostPart::kOneGap))) {
        work_ns_.for_each([&](size_t r, size_t s, double& ns) {
            ns =
                peers_.is_of_host_alone(r) || by_hosts ? std::min(search.left_ns.at(r, s), host_late_ns_.at(r, s)) : ns;
        });
    }

    void find() {
        std::vector<Suspect> suspects = all_suspects();
        const ShapeLimits limits = limits_of(suspects);
        judge(suspects, limits);
        for (const Suspect& suspect : suspects) {
            if (suspect.shape.pattern != LatePattern::kNone && (!of_hosts_ || strikes_whole_host(suspect))) {
                tell(suspect);
            }
        }
        tell_long_pauses(std::move(suspects), limits);
    }

    void find_long_pauses() {
        std::vector<Suspect> suspects = all_suspects();
        const ShapeLimits limits = limits_of(suspects);
        std::erase_if(suspects, [&](const Suspect& suspect) {  // it is told already
            return std::any_of(search_.causes.begin(), search_.causes.end(), [&](const SlowCause& cause) {
                return cause.ranks == std::vector<int>{search_.rank_number(suspect.ranks.front())};
            });
        });
        tell_long_pauses(std::move(suspects), limits);
    }

  private:
    std::vector<Suspect> all_suspects() const {
        std::map<std::string, std::vector<size_t>> by_host;
        std::vector<Suspect> suspects;
        for (size_t r = 0; r < search_.ranks(); ++r) {
            by_host[search_.process(r).host].push_back(r);
            if (!of_hosts_) {
                suspects.push_back({{r}, {}, {}});
            }
        }
        for (auto& [host, ranks] : by_host) {
            if (of_hosts_ && by_host.size() > 1 && ranks.size() > 1) {
                suspects.push_back({std::move(ranks), {}, {}});
            }
        }
        for (Suspect& suspect : suspects) {
            suspect.excess_ns = mean_of(suspect.ranks, work_ns_);
        }
        return suspects;
    }

    std::vector<double> mean_of(const std::vector<size_t>& ranks, const RankSteps& values) const {
        std::vector<double> means(search_.steps(), 0);
        for (const size_t r : ranks) {
            for (size_t s = 0; s < search_.steps(); ++s) {
                means[s] += values.at(r, s) / static_cast<double>(ranks.size());
            }
        }
        return means;
    }

    ShapeLimits limits_of(const std::vector<Suspect>& suspects) const {
        std::vector<double> changes_ns;  // from one step to the next
        for (const Suspect& suspect : suspects) {
            for (size_t i = 1; i < suspect.excess_ns.size(); ++i) {
                changes_ns.push_back(suspect.excess_ns[i] - suspect.excess_ns[i - 1]);
            }
        }
        ShapeLimits limits;
        const double least = search_.sees_each_launch() ? kLeastExcess : kLeastExcessFilledIn;
        limits.least_ns = std::max(least * search_.step_ns(), kAboveSpread * spread_of_changing(changes_ns));
        limits.length_ns = search_.step_ns();
        limits.seen_ns = search_.step_ns() * static_cast<double>(search_.steps());
        limits.trials = static_cast<double>(suspects.size());
        limits.least_long_hits = kFewLong;
        return limits;
    }

    void judge(std::vector<Suspect>& suspects, const ShapeLimits& limits) const {
        for (size_t i = 0; i < suspects.size(); ++i) {
            std::vector<double> costs = suspects[i].excess_ns;
            for (double& ns : costs) {
                ns = std::max(0.0, ns);
            }
            ShapeLimits own = limits;
            own.base_rate = std::max(own.base_rate,
                                     rate_of_others(suspects, i, std::max(late_from_ns(costs, limits.least_ns), 1.0)));
            suspects[i].shape = shape_of(costs, own);
        }
    }

    // How often others are longer by so much: the upper quartile of some of them.
    static double rate_of_others(const std::vector<Suspect>& suspects, size_t suspect, double from_ns) {
        std::vector<double> rates;
        for (size_t i = 0; i < suspects.size(); i += 1 + suspects.size() / kFewSuspects) {
            const std::vector<double>& excess_ns = suspects[i].excess_ns;
            const auto late =
                std::count_if(excess_ns.begin(), excess_ns.end(), [from_ns](double ns) { return ns >= from_ns; });
            if (i != suspect) {
                rates.push_back(static_cast<double>(late) / static_cast<double>(excess_ns.size()));
            }
        }
        return quantile_of(std::move(rates), 0.75);
    }

    // Those of the one that has far more of them than all others of whom nothing was told, long beside a step without
    // what was told before.
    void tell_long_pauses(std::vector<Suspect> others, ShapeLimits limits) {
        for (const SlowCause& cause : search_.causes) {
            limits.length_ns = std::max(limits.length_ns - cause.cost_ns, kLeastLeft * search_.step_ns());
        }
        std::erase_if(others, [](const Suspect& suspect) { return suspect.shape.pattern != LatePattern::kNone; });
        for (Suspect& suspect : others) {
            suspect.shape = shape_of_long_pauses(suspect.excess_ns, limits);
            if (suspect.shape.hits == 0) {
                suspect.shape = shape_of_long_pauses(mean_of(suspect.ranks, gap_ns_), limits);
                suspect.shape.last = search_.steps();
                suspect.is_by_pauses = true;
            }
        }
        std::stable_sort(others.begin(), others.end(),
                         [](const Suspect& a, const Suspect& b) { return a.shape.hits > b.shape.hits; });
        if (others.empty() || others.front().shape.hits == 0 ||
            (others.size() > 1 && others[1].shape.hits * kAsOften >= others.front().shape.hits)) {
            return;
        }
        if (!of_hosts_ || strikes_whole_host(others.front())) {
            tell(others.front(), true);
        }
    }

    bool is_struck(const Suspect& suspect, size_t s) const {
        const LateShape& shape = suspect.shape;
        return s >= shape.first && s <= shape.last &&
               (shape.pattern == LatePattern::kPersistent || suspect.excess_ns[s] > shape.typical_ns / 4);
    }

    bool strikes_whole_host(const Suspect& suspect) const {
        size_t struck = 0;
        for (const size_t r : suspect.ranks) {
            double rank_ns = 0, host_ns = 0;
            for (size_t s = 0; s < search_.steps(); ++s) {
                rank_ns += is_struck(suspect, s) ? work_ns_.at(r, s) : 0;
                host_ns += is_struck(suspect, s) ? suspect.excess_ns[s] : 0;
            }
            struck += rank_ns > kLikeItsHost * host_ns ? 1 : 0;
        }
        const bool is_by_host_alone = std::all_of(suspect.ranks.begin(), suspect.ranks.end(),
                                                  [&](size_t r) { return peers_.is_of_host_alone(r); });
        const double least = is_by_host_alone ? kHalfOfHost : kMostOfHost;
        return static_cast<double>(struck) >= least * static_cast<double>(suspect.ranks.size()) &&
               (!is_by_host_alone || is_of_host(suspect));
    }

    void tell(const Suspect& suspect, bool are_pauses = false) {
        RankSteps amounts_ns(search_.ranks(), search_.steps());
        SlowCause cause;
        for (const size_t r : suspect.ranks) {
            for (size_t s = 0; s < search_.steps(); ++s) {
                amounts_ns.at(r, s) = is_struck(suspect, s) ? std::max(0.0, work_ns_.at(r, s)) : 0;
            }
            cause.ranks.push_back(search_.rank_number(r));
        }
        std::sort(cause.ranks.begin(), cause.ranks.end());
        cause.since_step = are_pauses ? std::nullopt : search_.since(suspect.shape.first);
        const size_t first = suspect.ranks.front();
        if (!search_.process(first).host.empty()) {
            cause.hosts = {search_.process(first).host};
        }
        const bool of_host = is_of_host(suspect);
        say_excess(suspect, cause);
        // A slow host is slow in each step, and so is one that another process disturbs.
        const bool are_few = of_host && static_cast<double>(suspect.shape.hits) <
                                            kSeldom * static_cast<double>(search_.compared() - suspect.shape.first);
        cause.of_class = are_pauses || are_few ? CauseClass::kPauses
                         : of_host             ? class_of_host(search_, search_.process(first), of_hosts_, cause)
                         : of_hosts_           ? CauseClass::kSlowHost
                         : launches_more(suspect, first, cause) ? CauseClass::kMoreWork
                                                                : class_of_gpu(search_, search_.process(first), cause);
        if (cause.of_class == CauseClass::kMoreWork) {
            search_.add(std::move(cause), amounts_ns);
            return;
        }
        cause.evidence.push_back(
            !by_spans()
                ? of_host ? "its host makes the calls late, and is busy for longer than those of its peers"
                          : "its host makes the calls in time, but its GPU comes to them late"
                : fmt::format("{} late to {}, in which the others wait",
                              of_host ? "it comes" : "its host comes in time, but its GPU", search_.graph.meets_in));
        search_.add(std::move(cause), amounts_ns);
    }

    // In the steps in which it is late: then it is not its GPU that is slow.
    bool launches_more(const Suspect& suspect, size_t r, SlowCause& cause) const {
        const RankSteps more_launches = peers_.excess_of(search_.work.launches);
        std::vector<double> own, more;
        for (size_t s = 0; s < search_.compared(); ++s) {
            if (is_struck(suspect, s)) {
                own.push_back(search_.work.launches.at(r, s));
                more.push_back(more_launches.at(r, s));
            }
        }
        const double launches = median_of(std::move(own));
        const double of_others = launches - median_of(std::move(more));
        if (!search_.work.has_profiles || launches < kMoreLaunches * of_others || launches <= of_others) {
            return false;
        }
        cause.others_idle = of_others < 0.5;
        cause.evidence.push_back(
            cause.others_idle ? "it hands its GPU work in these steps, and the others hand theirs none"
                              : fmt::format("it hands its GPU {:.0f} pieces of work in such a step, the others {:.0f}",
                                            launches, of_others));
        return true;
    }

    bool by_spans() const { return !search_.graph.meets_in.empty(); }

    void say_excess(const Suspect& suspect, SlowCause& cause) const {
        const LateShape& shape = suspect.shape;
        if (suspect.is_by_pauses) {
            cause.evidence.push_back(fmt::format(
                "its host calls neither CUDA nor NCCL for {} longer than those of the ranks that do the same, in {} of "
                "{} steps (median): where it runs ahead of its GPU by less, the GPU waits",
                fine_duration_text(shape.typical_ns), shape.hits, search_.compared()));
            return;
        }
        const std::string when = shape.pattern == LatePattern::kPersistent ? "in each step"
                                 : shape.pattern == LatePattern::kPeriodic && search_.compared() == search_.graph.steps
                                     ? fmt::format("every {} steps", shape.every)
                                     : fmt::format("in {} of {} steps", shape.hits, search_.compared());
        cause.evidence.push_back(fmt::format("works {} longer than the ranks that do the same, {} (median)",
                                             fine_duration_text(shape.typical_ns), when));
    }

    // The host was late with its calls for that long, or was busy for longer than its peers. Between short calls the
    // GPU is seen only a look after the host: a host that is busy for longer, and whose GPU keeps up, is late, too.
    // Spans are the host's.
    bool is_of_host(const Suspect& suspect) const {
        if (by_spans() && !search_.graph.by_sums) {
            return true;
        }
        double all_ns = 0, busy_ns = 0, late_ns = 0, behind_ns = 0, keeps_up_ns = 0;
        for (const size_t r : suspect.ranks) {
            for (size_t s = 0; s < search_.steps(); ++s) {
                if (is_struck(suspect, s)) {
                    all_ns += work_ns_.at(r, s);
                    busy_ns += busy_ns_.at(r, s);
                    late_ns += host_late_ns_.at(r, s);
                    behind_ns += behind_ns_.at(r, s);
                    keeps_up_ns += keeps_up_ns_.at(r, s);
                }
            }
        }
        const double least_ns = kMostlyHost * all_ns;
        if (search_.graph.by_sums) {
            return behind_ns >= least_ns;
        }
        return search_.work.has_profiles
                   ? busy_ns >= least_ns && std::max({late_ns, behind_ns, keeps_up_ns}) >= least_ns
                   : late_ns >= least_ns;
    }

    CauseSearch& search_;
    const bool of_hosts_;
    const Peers peers_;
    // By how much each rank has more than its peers.
    RankSteps work_ns_;
    const RankSteps host_late_ns_;
    const RankSteps behind_ns_;
    const RankSteps keeps_up_ns_;
    const RankSteps busy_ns_;
    const RankSteps gap_ns_;
};

}  // namespace

void find_pauses_of_hosts(CauseSearch& search) { SlowRanks(search, Against::kOwnHost, true).find_long_pauses(); }

// Where hosts have too few ranks for one to be compared with those beside it, each of a slow host would be told by
// itself, and one alone gains little.
void find_slow_ranks(CauseSearch& search) {
    std::map<std::string, size_t> ranks_of;
    size_t most = 0;
    for (size_t r = 0; r < search.ranks(); ++r) {
        most = std::max(most, ++ranks_of[search.process(r).host]);
    }
    const bool hosts_first = most < Peers::kLeastOnHost;
    for (const bool of_hosts : {hosts_first, !hosts_first}) {
        SlowRanks(search, of_hosts ? Against::kOtherHosts : Against::kOwnHost).find();
    }
}

}  // namespace titan::analyzer

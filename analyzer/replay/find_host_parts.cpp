// Causes that the host's record names: spans of the program, and calls that allocate, free or load.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "cause_search.h"
#include "host/words.h"
#include "peers.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

// How much of what is longer in its steps belongs to it.
enum class Takes : uint8_t {
    kItsTime,    // no more than the host spends in it
    kWithWaits,  // its steps are as long as it makes them, for the host waits for the GPU in it
    kAftermath,  // what takes the time ends in these calls, or follows from them
};
struct HostCause {
    HostPart part;
    CauseClass of_class;
    std::string_view words;  // what takes the time
    Takes takes;
    bool of_all;  // where a few ranks have most of it, it is one cause with that of the others
};
constexpr auto kHostCauses = std::to_array<HostCause>({
    {HostPart::kCheckpoint, CauseClass::kCheckpoint, "spans that save or load checkpoints", Takes::kWithWaits, false},
    {HostPart::kCollector, CauseClass::kGarbageCollection, "spans of Python's collector", Takes::kItsTime, true},
    {HostPart::kCompile, CauseClass::kJit, "calls that load code, or spans that compile it", Takes::kAftermath, false},
    {HostPart::kAllocator, CauseClass::kAllocatorChurn, "calls that allocate or free memory of the GPU",
     Takes::kAftermath, false},
    {HostPart::kDataLoading, CauseClass::kDataLoading, "spans that wait for data", Takes::kItsTime, false},
});

constexpr double kOften = 0.5;       // share of a rank's steps
constexpr double kFew = 0.5;         // share of all ranks
constexpr double kStandsOut = 0.02;  // share of a step
constexpr double kStandsOutAsMark = 0.002;
constexpr double kAll = std::numeric_limits<double>::infinity();
constexpr double kSmallMost = 0.08;  // what all ranks spend in all steps is no cause below that share of a step

// What is above the usual of all, where that is little; else what is above the least of all; where most of all is, what
// is above nothing. What follows the last step is none. No step has to allocate, to free or to load code: what all
// spend in that is above nothing, too.
RankSteps above_usual(const CauseSearch& search, const RankSteps& spent_ns, Takes takes) {
    std::vector<double> all;
    for (size_t r = 0; r < search.ranks(); ++r) {
        for (size_t s = 0; s < search.compared(); ++s) {
            all.push_back(spent_ns.at(r, s));
        }
    }
    const double mean_ns = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    const double usual_ns = median_of(all);
    const double low_ns = quantile_of(std::move(all), 0.02);
    const double base_ns = takes == Takes::kAftermath                 ? 0
                           : usual_ns < kSmallMost * search.step_ns() ? usual_ns
                           : low_ns < kOften * mean_ns                ? low_ns
                                                                      : 0;
    RankSteps above_ns = spent_ns;
    above_ns.for_each([base_ns](size_t, size_t, double& ns) { ns -= base_ns; });
    return above_ns;
}

// The part that delayed the GPU: the rank worked longer than in its other steps, or, where it is the rule, its host was
// late with its calls, or, as calls that mark it may lie between two launches, the rank worked longer than its peers.
RankSteps delays_of(const CauseSearch& search, const RankSteps& above_ns, Takes takes) {
    const bool marks = takes == Takes::kAftermath;
    const RankSteps above_peers_ns = Peers(search, Against::kAlike).excess_of(search.left_ns);
    const double least_ns = (marks ? kStandsOutAsMark : kStandsOut) * search.step_ns();
    RankSteps delays = above_ns;
    std::vector<std::vector<double>> free(search.ranks());  // the work in steps without it
    above_ns.for_each([&](size_t r, size_t s, double ns) {
        if (ns < least_ns) {
            free[r].push_back(search.left_ns.at(r, s));
        }
    });
    std::vector<double> usual_ns;
    for (const std::vector<double>& of_rank : free) {
        usual_ns.push_back(median_of(of_rank));
    }
    delays.for_each([&](size_t r, size_t s, double& ns) {
        const bool often = static_cast<double>(free[r].size()) < kOften * static_cast<double>(search.steps());
        const double longer_ns = search.left_ns.at(r, s) - usual_ns[r];
        const double late_ns = marks ? std::max(search.work.host_late_ns.at(r, s), above_peers_ns.at(r, s))
                                     : search.work.behind_ns.at(r, s);
        const double delay_ns = often ? std::min(ns, late_ns) : marks ? longer_ns : std::min(ns, longer_ns);
        ns = ns < least_ns ? 0 : std::max(0.0, delay_ns);
    });
    return delays;
}

// The steps of these ranks in which it takes so much that it counts: the most that it can take from them, else 0.
RankSteps strokes_of(const CauseSearch& search, const RankSteps& above_ns, const RankSteps& delays_ns, Takes takes) {
    std::vector<bool> is_struck(search.ranks(), false);
    delays_ns.for_each([&](size_t r, size_t, double ns) { is_struck[r] = is_struck[r] || ns > 0; });
    RankSteps strokes = above_ns;
    strokes.for_each([&](size_t r, size_t, double& ns) {
        const bool counts = is_struck[r] && ns >= kStandsOutAsMark * search.step_ns();
        if (!counts) {
            ns = 0;
        } else if (takes != Takes::kItsTime) {
            ns = kAll;
        }
    });
    return strokes;
}

void tell(CauseSearch& search, const HostCause& row, const RankSteps& above_ns, const RankSteps& delays_ns) {
    SlowCause cause;
    cause.of_class = row.of_class;
    cause.ranks = search.struck_ranks(delays_ns);
    cause.since_step = search.since(delays_ns);
    cause.host_part = row.part;
    cause.slow_part = row.words;
    size_t struck = 0;
    double most_ns = 0;
    double calls = 0;
    delays_ns.for_each([&](size_t r, size_t s, double ns) {
        if (ns > 0) {
            ++struck;
            most_ns = std::max(most_ns, search.work.of(row.part).at(r, s));
            calls += search.work.memory_calls.at(r, s);
        }
    });
    const size_t all = cause.ranks.size() * search.compared();
    cause.evidence.push_back(fmt::format("{} take up to {} in a step, in {} of {} steps of {}", row.words,
                                         fine_duration_text(most_ns), std::min(struck, all), all,
                                         counted(cause.ranks.size(), "rank")));
    if (row.of_class == CauseClass::kAllocatorChurn) {
        cause.evidence.push_back(
            fmt::format("{:.0f} such calls in each of these steps", calls / static_cast<double>(struck)));
    }
    const bool by_strokes = search.graph.by_device && search.sees_each_launch();
    search.add(std::move(cause), delays_ns,
               by_strokes ? search.without_strokes(strokes_of(search, above_ns, delays_ns, row.takes), delays_ns)
                          : search.without(delays_ns));
}

bool is_in_most_steps(const RankSteps& delays_ns) {
    std::vector<bool> struck(delays_ns.steps(), false);
    delays_ns.for_each([&](size_t, size_t s, double ns) { struck[s] = struck[s] || ns > 0; });
    return static_cast<double>(std::count(struck.begin(), struck.end(), true)) >
           kOften * static_cast<double>(struck.size());
}

// Where a few have most of it, what all have a little of is a cause of its own.
void find_host_part(CauseSearch& search, const HostCause& row, HowOften how_often) {
    const RankSteps above_ns = above_usual(search, search.work.of(row.part), row.takes);
    RankSteps of_most = delays_of(search, above_ns, row.takes);
    const HowOften found = is_in_most_steps(of_most) ? HowOften::kInMostSteps : HowOften::kSeldom;
    if (of_most.sum() <= 0 || (how_often != HowOften::kAny && how_often != found)) {
        return;
    }
    const std::vector<int> most = search.struck_ranks(of_most);
    RankSteps of_others(search.ranks(), search.steps());
    const bool are_few = !row.of_all && static_cast<double>(most.size()) < kFew * static_cast<double>(search.ranks());
    of_most.for_each([&](size_t r, size_t s, double& ns) {
        if (are_few && !std::binary_search(most.begin(), most.end(), search.rank_number(r))) {
            std::swap(ns, of_others.at(r, s));
        }
    });
    tell(search, row, above_ns, of_most);
    if (of_others.sum() > 0) {
        tell(search, row, above_ns, of_others);
    }
}

}  // namespace

void find_host_parts(CauseSearch& search, HowOften how_often) {
    for (const HostCause& row : kHostCauses) {
        find_host_part(search, row, how_often);
    }
}

}  // namespace titan::analyzer

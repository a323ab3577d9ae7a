// Pauses: single steps of single ranks, at different times (a collector of garbage), or of all ranks at once.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cause_search.h"
#include "correlation.h"
#include "host/words.h"
#include "patterns.h"
#include "peers.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kLeastPause = 0.08;   // share of a step
constexpr double kPauseStandsOut = 6;  // times the spread of a rank's steps
constexpr double kUnevenWork = 0.05;   // share of a step that it costs: all work varies a little
constexpr double kOfHosts = 0.3;       // share of the pauses: below it is the GPUs that work longer
constexpr double kLeastRanks = 0.2;    // share of the ranks that pause now and then
constexpr double kMostOfOne = 0.7;     // share of the pauses on one rank: else they are its own
constexpr double kInOnePiece = 0.5;    // share of a pause that the host makes no call for
constexpr double kAtOnePlace = 0.95;   // share of the pauses
constexpr double kElsewhere = 0.5;     // share of the work that is at that place
constexpr size_t kLeastTimes = 5;      // few strokes are no period
constexpr size_t kLeastPauses = 4;
constexpr size_t kLeastSteps = 12;        // fewer do not tell what is seldom, nor that work is uneven in each step
constexpr double kRegular = 0.8;          // share of the distances between strokes
constexpr double kOftenForPauses = 0.15;  // share of the steps
constexpr double kAllPause = 0.5;         // share of the ranks
constexpr double kAtOnce = 0.5;        // share of all such time: what ranks have in steps of their own meets by chance
constexpr double kFewLooks = 3;        // looks at the GPU: shorter pauses may be chance
constexpr double kWithLengths = 0.35;  // correlation of the longest pause in a step with its length
constexpr double kOfLength = 0.5;      // share of a pause by which a step is longer in which all ranks pause

// What a rank has too much in the steps in which it stands out, if these are few.
RankSteps pauses_of(const CauseSearch& search, const RankSteps& excess_ns) {
    RankSteps pauses_ns(search.ranks(), search.steps());
    for (size_t r = 0; r < search.ranks(); ++r) {
        const std::vector<double> longer_ns = excess_ns.of_rank(r);
        const double middle_ns = median_of(longer_ns);
        const double least_ns =
            std::max(kLeastPause * search.step_ns(), kPauseStandsOut * spread_of(longer_ns)) + middle_ns;
        const auto times = std::count_if(longer_ns.begin(), longer_ns.end(), [&](double ns) { return ns > least_ns; });
        if (static_cast<double>(times) > kSeldom * static_cast<double>(search.steps())) {
            continue;
        }
        for (size_t s = 0; s < search.steps(); ++s) {
            pauses_ns.at(r, s) = longer_ns[s] > least_ns ? longer_ns[s] - middle_ns : 0;
        }
    }
    return pauses_ns;
}

// What each rank has beyond its own usual step, where that is a pause for itself.
RankSteps beyond_usual(const CauseSearch& search) {
    const std::vector<double> usual_ns = search.usual_of_ranks(search.left_ns);
    RankSteps pauses_ns = search.left_ns;
    pauses_ns.for_each([&](size_t r, size_t s, double& ns) {
        // Where a GPU was not watched, its moments are made of those of others: its host tells whether it paused.
        const bool is_of_others = search.graph.sample > 1 && search.work.host_late_ns.at(r, s) < kOfHosts * ns;
        const bool is_pause = ns - usual_ns[r] > 2 * kLeastPause * search.step_ns() && !is_of_others;
        ns = is_pause ? ns - usual_ns[r] : 0;
    });
    return pauses_ns;
}

// How many ranks pause in each step.
std::vector<double> ranks_that_pause(const RankSteps& pauses_ns) {
    std::vector<double> ranks(pauses_ns.steps(), 0);
    pauses_ns.for_each([&](size_t, size_t s, double ns) { ranks[s] += ns > 0 ? 1 : 0; });
    return ranks;
}

struct Pauses {
    size_t ranks = 0;
    size_t times = 0;
    size_t most = 0;  // of one rank
};

Pauses count_pauses(const RankSteps& pauses_ns) {
    Pauses count;
    for (size_t r = 0; r < pauses_ns.ranks(); ++r) {
        const std::vector<double> own_ns = pauses_ns.of_rank(r);
        const size_t times = own_ns.size() - static_cast<size_t>(std::ranges::count(own_ns, 0.0));
        count.ranks += times != 0 ? 1 : 0;
        count.times += times;
        count.most = std::max(count.most, times);
    }
    return count;
}

// The share of the pauses that this part takes.
double share_of_pauses(const RankSteps& pauses_ns, const RankSteps& part_ns) {
    double pause_ns = 0, of_part_ns = 0;
    pauses_ns.for_each([&](size_t r, size_t s, double ns) {
        pause_ns += ns;
        of_part_ns += std::clamp(part_ns.at(r, s), 0.0, ns);
    });
    return pause_ns > 0 ? of_part_ns / pause_ns : 0;
}

// Do nearly all pauses lie in one slot, in which ranks spend little of their time otherwise? A collector runs anywhere.
bool are_at_one_place(const CauseSearch& search, const RankSteps& pauses_ns) {
    std::map<uint32_t, double> pauses;  // by slot
    std::map<uint32_t, double> work_ns;
    double all_pauses = 0, all_work_ns = 0;
    for (size_t r = 0; r < search.ranks(); ++r) {
        search.for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
            uint32_t longest = first;
            for (uint32_t n = first; n < end; ++n) {
                const double usual_ns = static_cast<double>(search.recorded().own_ns[n]) - search.excess_ns(r, n);
                work_ns[search.graph.nodes[n].slot] += std::max(0.0, usual_ns);
                all_work_ns += std::max(0.0, usual_ns);
                longest = search.excess_ns(r, n) > search.excess_ns(r, longest) ? n : longest;
            }
            const bool pauses_here = pauses_ns.at(r, step) > 0;
            pauses[search.graph.nodes[longest].slot] += pauses_here ? 1 : 0;
            all_pauses += pauses_here ? 1 : 0;
        });
    }
    return std::any_of(pauses.begin(), pauses.end(), [&](const auto& of_slot) {
        return of_slot.second >= kAtOnePlace * all_pauses && work_ns[of_slot.first] < kElsewhere * all_work_ns;
    });
}

double median_pause_ns(const RankSteps& pauses_ns) {
    std::vector<double> lengths_ns = pauses_ns.all();
    std::erase(lengths_ns, 0.0);
    return median_of(std::move(lengths_ns));
}

// Nothing where the steps are too few, or not at one distance.
std::optional<double> period_of(const std::vector<size_t>& steps) {
    std::vector<double> distances;
    for (size_t i = 1; i < steps.size(); ++i) {
        distances.push_back(static_cast<double>(steps[i] - steps[i - 1]));
    }
    const double every = median_of(distances);
    const auto regular = std::count(distances.begin(), distances.end(), every);
    const bool is_period =
        every >= 2 && static_cast<double>(regular) >= kRegular * static_cast<double>(distances.size());
    return steps.size() < kLeastTimes || !is_period ? std::nullopt : std::optional(every);
}

// How well the lengths of steps go with the longest pause in each. Looks at GPUs that lie further apart than calls show
// work where there is none, in steps that are as long as the others.
double with_lengths(const CauseSearch& search, const RankSteps& pauses_ns) {
    const std::vector<double> lengths_ns = search.lengths_ns();
    std::vector<double> longest_ns(lengths_ns.size(), 0);
    pauses_ns.for_each([&](size_t, size_t s, double ns) {
        if (s < longest_ns.size()) {
            longest_ns[s] = std::max(longest_ns[s], ns);
        }
    });
    return correlation(lengths_ns, longest_ns);
}

// Ranks that are not compared may be what all others wait for.
bool may_wait_for_others(const CauseSearch& search) {
    return search.ranks() < search.run.processes.size() || !search.run.missing_ranks.empty();
}

}  // namespace

void find_pauses_of_ranks(CauseSearch& search) {
    if (search.compared() < kLeastSteps) {
        return;
    }
    const Peers peers(search, Against::kAlike);
    RankSteps pauses_ns = pauses_of(search, peers.excess_of(search.left_ns));
    // What most ranks do at once, such as to start or to write a checkpoint, is no pause of their own, though one of
    // them takes longest.
    const std::vector<double> pausing = ranks_that_pause(beyond_usual(search));
    const double most = kAllPause * static_cast<double>(search.ranks());
    pauses_ns.for_each([&](size_t, size_t s, double& ns) { ns = pausing[s] > most ? 0 : ns; });
    // Nor is what others have too much by chance.
    const std::vector<int> ranks = search.struck_ranks(pauses_ns);
    pauses_ns.for_each([&](size_t r, size_t, double& ns) {
        ns = std::binary_search(ranks.begin(), ranks.end(), search.rank_number(r)) ? ns : 0;
    });
    const Pauses pauses = count_pauses(pauses_ns);
    const bool are_long = median_pause_ns(pauses_ns) > search.step_ns();
    if (pauses.ranks < 2 || static_cast<double>(pauses.ranks) < kLeastRanks * static_cast<double>(search.ranks()) ||
        pauses.times < std::max(are_long ? kLeastLongPauses : kLeastPauses, pauses.ranks) ||
        static_cast<double>(pauses.most) > kMostOfOne * static_cast<double>(pauses.times)) {
        return;
    }
    const bool is_of_gpus =
        search.graph.by_device && share_of_pauses(pauses_ns, peers.excess_of(search.work.host_late_ns)) < kOfHosts;
    if ((is_of_gpus || median_pause_ns(pauses_ns) < kFewLooks * search.graph.resolution_ns()) &&
        with_lengths(search, pauses_ns) < kWithLengths) {
        return;
    }
    SlowCause cause;
    cause.evidence.push_back(fmt::format("{} pauses of {} (median) on {} of {} ranks, in steps of their own",
                                         pauses.times, fine_duration_text(median_pause_ns(pauses_ns)), pauses.ranks,
                                         search.ranks()));
    if (is_of_gpus) {
        cause.of_class = CauseClass::kUnevenSequences;
        cause.ranks = search.all_ranks();
        cause.evidence.emplace_back("the hosts make their calls in time: it is the GPUs that work for longer");
        const double cost_ns = search.cost_ns(search.without(pauses_ns));
        if (cost_ns > kUnevenWork * search.step_ns() && !may_wait_for_others(search)) {
            search.add(std::move(cause), pauses_ns);
        }
        return;
    }
    const bool at_one_place = are_at_one_place(search, pauses_ns);
    cause.of_class = at_one_place ? CauseClass::kDataLoading : CauseClass::kGarbageCollection;
    cause.ranks = ranks;
    // The host made no call in a pause: it neither computed on the GPU nor allocated.
    const double in_one_piece = share_of_pauses(pauses_ns, peers.excess_of(search.work.of(HostPart::kOneGap)));
    cause.evidence.emplace_back(in_one_piece >= kInOnePiece
                                    ? "in one piece: the host calls neither CUDA nor NCCL all the while"
                                    : "whether the hosts pause in one piece, the record does not show");
    if (at_one_place) {
        cause.evidence.emplace_back(
            "all at the same place of a step, as where it waits for data; no span says what for");
    }
    search.add(std::move(cause), pauses_ns);
}

void find_pauses_of_all(CauseSearch& search) {
    RankSteps pauses_ns = beyond_usual(search);
    const std::vector<double> paused = ranks_that_pause(pauses_ns);
    const double most = kAllPause * static_cast<double>(search.ranks());
    const double all_ns = pauses_ns.sum();
    pauses_ns.for_each([&](size_t, size_t s, double& ns) { ns = paused[s] > most ? ns : 0; });
    if (pauses_ns.sum() < kAtOnce * all_ns) {
        return;
    }
    std::vector<size_t> when;
    for (size_t s = 0; s < search.steps(); ++s) {
        if (paused[s] > most) {
            when.push_back(s);
        }
    }
    const std::optional<double> every = period_of(when);
    const auto times = static_cast<double>(when.size());
    const bool are_few = when.size() < kLeastLongPauses || median_pause_ns(pauses_ns) < kLongPause * search.step_ns();
    // What GPUs alone take longer for, again and again, is work that differs from step to step.
    const bool is_work = search.graph.by_device && share_of_pauses(pauses_ns, search.work.host_late_ns) < kOfHosts &&
                         times > kOftenForPauses * static_cast<double>(search.steps());
    if (times > kSeldom * static_cast<double>(search.steps()) ||
        (!every && (are_few || is_work || may_wait_for_others(search))) ||
        !search.are_longer_by(kOfLength * median_pause_ns(pauses_ns), when)) {
        return;
    }
    SlowCause cause;
    cause.of_class = every ? CauseClass::kCheckpoint : CauseClass::kPauses;
    cause.ranks = search.struck_ranks(pauses_ns);
    cause.evidence.push_back(
        every ? fmt::format("all ranks pause at once every {:.0f} steps, {} times, as for a checkpoint or a "
                            "validation; no span says what for",
                            *every, when.size())
              : fmt::format("all ranks pause at once, {} times, as where code is compiled; no span says what for",
                            when.size()));
    search.add(std::move(cause), pauses_ns);
}

}  // namespace titan::analyzer

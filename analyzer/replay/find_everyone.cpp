// All ranks became slower at once, and stayed so: what changed concerns the job, not a rank.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cause_search.h"
#include "correlation.h"
#include "host/words.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr double kTimesBefore = 1.04;   // times as long as before
constexpr size_t kLeastOnASide = 4;     // before and behind
constexpr double kFewOfASide = 0.2;     // share of the steps that may be as long as those of the other side
constexpr double kAboveStepSpread = 3;  // times the spread of steps
constexpr double kBeside = 0.1;         // share of the steps of a side that are beside the cut
constexpr double kMostAtCut = 0.6;      // share of what steps became longer that they do there
constexpr double kMostOfAll = 0.7;      // share of ranks that became slower then
constexpr double kLeastOfStep = 0.5;    // share of what ranks work longer by which steps became longer

std::vector<double> part_of(const std::vector<double>& values, size_t from, size_t to) {
    return {values.begin() + static_cast<std::ptrdiff_t>(from), values.begin() + static_cast<std::ptrdiff_t>(to)};
}

// The steps beside the cut are as long as most on their side: work that grows from step to step, as batches that are
// warmed up do, became slower at no step.
bool is_at_once(const std::vector<double>& of_steps, size_t cut, double before, double behind) {
    const auto beside = [](size_t steps) {
        return std::max(kLeastOnASide, static_cast<size_t>(kBeside * static_cast<double>(steps)));
    };
    const double last = median_of(part_of(of_steps, cut - beside(cut), cut));
    const double first = median_of(part_of(of_steps, cut, cut + beside(of_steps.size() - cut)));
    return first - last >= kMostAtCut * (behind - before);
}

std::string longer_text(double times) {
    return times < 3 ? fmt::format("{:.0f}% longer than before", 100 * (times - 1))
                     : fmt::format("{:.0f} times as long as before", times);
}

}  // namespace

void find_everyone(CauseSearch& search) {
    std::vector<double> of_steps;  // the middle rank's work, as a share of its usual
    const std::vector<double> usual_ns = search.usual_of_ranks(search.left_ns);
    for (size_t s = 0; s < search.steps(); ++s) {
        std::vector<double> shares;
        for (size_t r = 0; r < search.ranks(); ++r) {
            shares.push_back(usual_ns[r] > 0 ? search.left_ns.at(r, s) / usual_ns[r] : 1);
        }
        of_steps.push_back(median_of(std::move(shares)));
    }
    // The first step on record has no beginning, and what is behind the last one no end.
    if (of_steps.size() < 2 * kLeastOnASide + 1) {
        return;
    }
    of_steps.front() = of_steps[1];
    of_steps.back() = of_steps[of_steps.size() - 2];
    const size_t cut = rise_of(of_steps, kLeastOnASide);
    if (cut == 0) {
        return;
    }
    const double before = median_of(part_of(of_steps, 0, cut));
    const double behind = median_of(part_of(of_steps, cut, of_steps.size()));
    if (before <= 0) {  // no work of their own to be longer than
        return;
    }
    const double spread =
        std::max(spread_of(part_of(of_steps, 0, cut)), spread_of(part_of(of_steps, cut, of_steps.size())));
    const double middle = (before + behind) / 2;
    const bool stays = quantile_of(part_of(of_steps, 0, cut), 1 - kFewOfASide) < middle &&
                       quantile_of(part_of(of_steps, cut, of_steps.size()), kFewOfASide) > middle;
    if (!stays || behind < kTimesBefore * before || behind - before < kAboveStepSpread * spread ||
        !is_at_once(of_steps, cut, before, behind)) {
        return;
    }
    RankSteps amounts_ns(search.ranks(), search.steps());
    size_t slower = 0;
    std::vector<double> longer_ns;
    for (size_t r = 0; r < search.ranks(); ++r) {
        const std::vector<double> own = search.left_ns.of_rank(r);
        const double own_before_ns = median_of(part_of(own, 1, cut));
        const double own_behind_ns = median_of(part_of(own, cut, own.size()));
        longer_ns.push_back(own_behind_ns - own_before_ns);
        slower += own_behind_ns > own_before_ns * (1 + (kTimesBefore - 1) / 2) ? 1 : 0;
        for (size_t s = cut; s < search.steps(); ++s) {
            amounts_ns.at(r, s) = search.left_ns.at(r, s) * std::max(0.0, 1 - own_before_ns / own_behind_ns);
        }
    }
    std::vector<size_t> behind_cut(search.steps() - cut);
    std::iota(behind_cut.begin(), behind_cut.end(), cut);
    if (static_cast<double>(slower) < kMostOfAll * static_cast<double>(search.ranks()) ||
        !search.are_longer_by(kLeastOfStep * median_of(std::move(longer_ns)), behind_cut)) {
        return;
    }
    SlowCause cause;
    cause.of_class = CauseClass::kEveryone;
    cause.ranks = search.all_ranks();
    cause.since_step = search.since(cut);
    cause.evidence.push_back(fmt::format("{} of {} ranks work {} from step {} on", slower, search.ranks(),
                                         longer_text(behind / before), search.number_of(cut)));
    search.add(std::move(cause), amounts_ns);
}

}  // namespace titan::analyzer

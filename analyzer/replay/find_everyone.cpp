// Steps became longer at once, and stayed so, because all ranks that do the same took longer for it: what changed
// concerns the job, not a rank.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

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
constexpr double kMostOfAll = 0.7;      // share of ranks with the same work that work longer then
constexpr double kLeastOfStep = 0.5;    // share of what steps became longer that ranks work longer

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

// From that step on steps are longer, and stay so.
struct Rise {
    size_t cut = 0;
    double by_ns = 0;
};

std::optional<Rise> rise_in(std::vector<double> of_steps) {
    if (of_steps.size() < 2 * kLeastOnASide) {
        return std::nullopt;
    }
    of_steps.front() = of_steps[1];  // the first step on record has no beginning
    const size_t cut = rise_of(of_steps, kLeastOnASide);
    if (cut == 0) {
        return std::nullopt;
    }
    const std::vector<double> early = part_of(of_steps, 0, cut);
    const std::vector<double> late = part_of(of_steps, cut, of_steps.size());
    const double before = median_of(early), behind = median_of(late);
    const double middle = (before + behind) / 2;
    const bool stays = quantile_of(early, 1 - kFewOfASide) < middle && quantile_of(late, kFewOfASide) > middle;
    const bool is_clear = behind >= kTimesBefore * before &&
                          behind - before >= kAboveStepSpread * std::max(spread_of(early), spread_of(late));
    return stays && is_clear && is_at_once(of_steps, cut, before, behind) ? std::optional(Rise{cut, behind - before})
                                                                          : std::nullopt;
}

class Everyone {
  public:
    Everyone(CauseSearch& search, const Rise& rise) : search_(search), rise_(rise) {}

    // Ranks that do the same, and do all of it longer.
    bool find_in_work() {
        RankSteps amounts_ns(search_.ranks(), search_.steps());
        SlowCause cause;
        std::vector<double> times;
        for (const auto& [role, ranks] : ranks_by_role()) {
            std::vector<Work> work;
            std::ranges::transform(ranks, std::back_inserter(work), [this](size_t r) { return work_of(r); });
            const auto slower = std::ranges::count_if(work, [this](const Work& one) {
                return one.before_ns > 0 && one.behind_ns - one.before_ns >= kLeastOfStep * rise_.by_ns;
            });
            if (static_cast<double>(slower) < kMostOfAll * static_cast<double>(ranks.size())) {
                continue;
            }
            for (size_t i = 0; i < ranks.size(); ++i) {
                const auto [before_ns, behind_ns] = work[i];
                const double longer_ns = std::max(0.0, behind_ns - before_ns);
                cause.ranks.push_back(search_.rank_number(ranks[i]));
                times.push_back(before_ns > 0 ? behind_ns / before_ns : 1);
                for (size_t s = rise_.cut; longer_ns > 0 && s < search_.steps(); ++s) {
                    amounts_ns.at(ranks[i], s) = search_.left_ns.at(ranks[i], s) * longer_ns / behind_ns;
                }
            }
        }
        if (cause.ranks.empty()) {
            return false;
        }
        cause.evidence.push_back(fmt::format("they work {} from step {} on", longer_text(median_of(std::move(times))),
                                             search_.number_of(rise_.cut)));
        return search_.add(at_once(std::move(cause)), amounts_ns);
    }

    // Those that mark no steps: calls with them take longer.
    bool find_in_calls_with_others() {
        SlowCause cause;
        Durations without = search_.recorded();
        for (size_t r = 0; r < search_.ranks(); ++r) {
            std::map<uint32_t, std::vector<double>> before_ns;  // by slot
            for_each_call_with_others(r, [&](uint32_t n, size_t step, const std::vector<OutsideArrival>&) {
                if (step < rise_.cut) {
                    before_ns[search_.graph.nodes[n].slot].push_back(static_cast<double>(without.run_ns[n]));
                }
            });
            for_each_call_with_others(r, [&](uint32_t n, size_t step, const std::vector<OutsideArrival>& others) {
                const auto known = before_ns.find(search_.graph.nodes[n].slot);
                if (step < rise_.cut || known == before_ns.end()) {
                    return;
                }
                without.run_ns[n] = std::min(without.run_ns[n], static_cast<float>(median_of(known->second)));
                for (const OutsideArrival& other : others) {
                    cause.ranks.push_back(search_.run.processes[other.process].rank);
                }
            });
        }
        cause.evidence.push_back(
            fmt::format("calls with them take longer from step {} on, and what the others do by "
                        "themselves does not",
                        search_.number_of(rise_.cut)));
        return search_.add(at_once(std::move(cause)), without);
    }

  private:
    SlowCause at_once(SlowCause cause) const {
        cause.of_class = CauseClass::kEveryone;
        sort_unique(cause.ranks);
        cause.since_step = search_.since(rise_.cut);
        return cause;
    }

    std::map<uint32_t, std::vector<size_t>> ranks_by_role() const {
        std::map<uint32_t, std::vector<size_t>> ranks;
        for (size_t r = 0; r < search_.ranks(); ++r) {
            ranks[search_.graph.roles[r]].push_back(r);
        }
        return ranks;
    }

    // What a rank does by itself in a step, before the cut and behind it.
    struct Work {
        double before_ns = 0;
        double behind_ns = 0;
    };
    Work work_of(size_t r) const {
        const std::vector<double> own_ns = search_.left_ns.of_rank(r);
        return {median_of(part_of(own_ns, 1, rise_.cut)), median_of(part_of(own_ns, rise_.cut, own_ns.size()))};
    }

    // Calls visit(node, step, who else comes).
    template <typename Visit>
    void for_each_call_with_others(size_t r, const Visit& visit) const {
        search_.for_each_step(r, [&](uint32_t first, uint32_t end, size_t step) {
            for (uint32_t n = first; n < end; ++n) {
                for (const uint32_t meeting : search_.graph.meetings_of(n)) {
                    const auto found = search_.graph.outside.find(meeting & ~StepGraph::kDoesNotWait);
                    if (found != search_.graph.outside.end()) {
                        visit(n, step, found->second);
                    }
                }
            }
        });
    }

    CauseSearch& search_;
    const Rise rise_;
};

}  // namespace

void find_everyone(CauseSearch& search) {
    if (const std::optional<Rise> rise = rise_in(search.lengths_ns())) {
        Everyone everyone(search, *rise);
        everyone.find_in_work() || everyone.find_in_calls_with_others();
    }
}

}  // namespace titan::analyzer

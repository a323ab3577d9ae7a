#include "late_ranks.h"

#include <algorithm>

#include "cause_search.h"

namespace titan::analyzer {

constexpr double kOfLateness = 0.5;  // what a link costs, beside what the rank's lateness does: then it is the link's

const SlowCause* cause_of(const SlowCauses& slow, const std::vector<int>& ranks) {
    for (const SlowCause& cause : slow.causes) {
        if ((is_of_ranks(cause.of_class) || cause.ranks == ranks) &&
            std::includes(cause.ranks.begin(), cause.ranks.end(), ranks.begin(), ranks.end())) {
            return &cause;
        }
    }
    return nullptr;
}

double cost_ns(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    const SlowCause* const cause = cause_of(slow, {rank.rank});
    return cause != nullptr ? cause->cost_ns
                            : rank.lost_ns / static_cast<double>(std::max<size_t>(1, axis.keys.size()));
}

double share_of(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    if (const SlowCause* const cause = cause_of(slow, {rank.rank}); cause != nullptr) {
        return cause->share();
    }
    // What a call costs is no part of a step.
    const double of_ns = axis.steps && slow.step_ns > 0 ? slow.step_ns : axis.length_ns;
    return of_ns > 0 ? cost_ns(slow, rank, axis) / of_ns : 0;
}

namespace {

// Its calls with others take long, and that holds it up.
bool is_late_by_link(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    return std::any_of(slow.causes.begin(), slow.causes.end(), [&](const SlowCause& cause) {
        return cause.of_class == CauseClass::kSlowLink &&
               std::binary_search(cause.ranks.begin(), cause.ranks.end(), rank.rank) &&
               cause.share() > kOfLateness * share_of(slow, rank, axis);
    });
}

}  // namespace

void forget_lateness_without_cost(const SlowCauses& slow, Timing& timing) {
    for (RankTiming& rank : timing.ranks) {
        const TimeAxis& axis = timing.axes[rank.axis];
        const bool was_played = std::binary_search(slow.ranks.begin(), slow.ranks.end(), rank.rank);
        // One delay shows in all calls of a step behind it: it costs a step no less than one call, but no more is sure.
        if (!was_played && !axis.steps && rank.shape.typical_ns < kLeastShareOfStep * slow.step_ns) {
            rank.shape = LateShape();
        }
        if (was_played && cause_of(slow, {rank.rank}) == nullptr &&
            (!axis.steps || is_late_by_link(slow, rank, axis))) {
            rank.shape = LateShape();
        }
    }
}

Slowness slowness_of(const Run& run) {
    Slowness slowness{analyze_timing(run), {}};
    slowness.causes = slow_causes(run, slowness.timing);
    forget_lateness_without_cost(slowness.causes, slowness.timing);
    return slowness;
}

std::optional<int64_t> since_of(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    if (has_beginning(rank.shape)) {
        return axis.keys[rank.shape.first];
    }
    const SlowCause* const cause = axis.steps ? cause_of(slow, {rank.rank}) : nullptr;
    return cause != nullptr && rank.shape.pattern != LatePattern::kNone ? cause->since_step : std::nullopt;
}

void settle_since(SlowCause& cause, const Timing& timing) {
    std::optional<int64_t> first;
    for (const RankTiming& rank : timing.ranks) {
        const TimeAxis& axis = timing.axes[rank.axis];
        if (!(is_of_ranks(cause.of_class) || cause.ranks.size() == 1) || rank.shape.pattern == LatePattern::kNone ||
            !axis.steps || !std::binary_search(cause.ranks.begin(), cause.ranks.end(), rank.rank)) {
            continue;
        }
        if (cause.since_step && *cause.since_step < axis.keys.front()) {
            return;
        }
        if (!has_beginning(rank.shape)) {
            cause.since_step.reset();
            return;
        }
        first = std::min(first.value_or(INT64_MAX), axis.keys[rank.shape.first]);
    }
    cause.since_step = first ? first : cause.since_step;
}

}  // namespace titan::analyzer

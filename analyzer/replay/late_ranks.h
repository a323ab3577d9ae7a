// What a rank's lateness costs, and since when: one number for one delay, wherever it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "slow_causes.h"
#include "timing.h"

namespace titan::analyzer {

// What was there when the record begins has no beginning.
constexpr bool has_beginning(const LateShape& shape) { return shape.pattern != LatePattern::kNone && shape.first > 1; }

// The played cause that the lateness of all these ranks (sorted) is; null where there is none.
const SlowCause* cause_of(const SlowCauses& slow, const std::vector<int>& ranks);
// What the step would gain without it, where steps could be played; else what others waited for the rank, spread over
// the steps or calls.
double cost_ns(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis);
double share_of(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis);
// The first step (or call, where the axis has none); nothing where it was there when the record begins.
std::optional<int64_t> since_of(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis);

// A rank that was played is not late in calls if no step would be shorter without that, and nowhere if a slow link is
// what holds it up: a cause tells that.
void forget_lateness_without_cost(const SlowCauses& slow, Timing& timing);

// Both, and in agreement.
struct Slowness {
    Timing timing;
    SlowCauses causes;
};
Slowness slowness_of(const Run& run);

// Calls show more exactly than sums of steps when ranks became late; but the sums may go further back.
void settle_since(SlowCause& cause, const Timing& timing);

}  // namespace titan::analyzer

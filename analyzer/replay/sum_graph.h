// The graph of a job whose calls are on record as sums of steps alone, as journals keep them: its ranks meet once a
// step. A rank waits in a step as much longer in the calls of a communicator as the rank that was shortest in them:
// that one came last. Of several communicators and operations the longest wait counts, for one delay may show in each.
#pragma once

#include <optional>

#include "step_graph.h"

namespace titan::analyzer {

// None where the calls of no step are on record as sums. One with why_none where these cannot tell who waited.
std::optional<StepGraph> sum_graph(const Run& run);

}  // namespace titan::analyzer

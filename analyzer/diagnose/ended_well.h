// Jobs that ended: well, or nothing tells how.
#pragma once

#include <string>

#include "run.h"

namespace titan::analyzer {

bool ended_well(const Run& run);
// "metrics not finite: loss, rank 0, step 20": values that were none for a while are no finding, but whoever looks into
// the run wants to know. Empty where there are none.
std::string odd_metrics_text(const Run& run);
// "ended well after 30 steps, 2 of 2 ranks; 53 ms a step; metrics not finite: loss, rank 0, step 20", or "rank 0 ended
// well after 30 steps, 1 of 2 ranks; no record of rank 1". Empty if a process goes on, failed, or ended in a way that
// nothing tells. `step_ns`: how long a step takes; 0: only the hosts tell.
std::string ended_well_text(const Run& run, double step_ns);
// Ranks of which only a journal is left, which does not tell how they ended. Empty if there is none.
std::string unknown_ends_text(const Run& run);

}  // namespace titan::analyzer

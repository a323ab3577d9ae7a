// What the steps took that a cause spared. Where there are enough of them, they tell what a step takes without it; a
// replay can only suppose that.
#pragma once

#include "slow_causes.h"
#include "step_graph.h"

namespace titan::analyzer {

// Sets what the costliest cause costs by the steps that it spared, where these tell, and says so.
void measure_by_spared_steps(const StepGraph& graph, SlowCauses& all);

}  // namespace titan::analyzer

// Ranks whose processes live but do not run. Their GPUs may go on or stop: their state is a consequence.
#pragma once

#include "finding.h"

namespace titan::analyzer {

// Joins the hangs that name such ranks into one finding, rank_stopped.
void name_the_halted(const Run& run, Diagnosis& diagnosis);

}  // namespace titan::analyzer

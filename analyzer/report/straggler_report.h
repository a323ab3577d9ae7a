// The table of lateness, for people and for machines.
#pragma once

#include <string>

#include "document.h"
#include "run.h"
#include "slow_causes.h"
#include "timing.h"

namespace titan::analyzer {

// Causes first, with what the step would take without each; then ranks: those that cost most, or all.
std::string straggler_report(const Run& run, const Timing& timing, const SlowCauses& slow, bool all_ranks,
                             const TextStyle& style);
std::string straggler_json(const Run& run, const Timing& timing, const SlowCauses& slow);

}  // namespace titan::analyzer

// The table of lateness, for people and for machines.
#pragma once

#include <set>
#include <string>

#include "document.h"
#include "run.h"
#include "slow_causes.h"
#include "summary.h"
#include "timing.h"

namespace titan::analyzer {

struct StragglerOptions {
    bool all = false;       // also ranks whose lateness is chance
    std::set<int> ranks{};  // these alone, late or not; empty: those that cost most
    SummaryBy by = SummaryBy::kRank;
};

// How long a step is, wherever it is told: as it was played, where it was. Hosts that run ahead of their GPUs mark
// steps at another pace.
double step_length_ns(const SlowCauses& slow, const TimeAxis& axis);
// Causes first, with what the step would take without each; then a table of ranks, or of groups of them.
std::string straggler_report(const Run& run, const Timing& timing, const SlowCauses& slow,
                             const StragglerOptions& options, const TextStyle& style);
std::string straggler_json(const Run& run, const Timing& timing, const SlowCauses& slow,
                           const std::set<int>& ranks = {});

}  // namespace titan::analyzer

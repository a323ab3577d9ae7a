// Stragglers, slow collectives and what else makes steps long, as findings.
#pragma once

#include <vector>

#include "finding.h"
#include "timing.h"

namespace titan::analyzer {

// Appended, what costs a step most first: a hang stays the head, and where one is, steps are played only if somebody is
// late. `timing` forgets lateness that costs nothing. Returns what is left out.
std::vector<Warning> add_timing_findings(const Run& run, Timing& timing, const DiagnoseOptions& options,
                                         Diagnosis& diagnosis);

}  // namespace titan::analyzer

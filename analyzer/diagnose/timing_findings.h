// Stragglers and slow collectives as findings.
#pragma once

#include <vector>

#include "finding.h"
#include "timing.h"

namespace titan::analyzer {

// Appended: a hang stays the head. Steps are played only if somebody is late. Returns what is left out.
std::vector<Warning> add_timing_findings(const Run& run, const Timing& timing, std::vector<Finding>& findings);

}  // namespace titan::analyzer

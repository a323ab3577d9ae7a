// Stragglers and slow collectives as findings.
#pragma once

#include <vector>

#include "finding.h"
#include "timing.h"

namespace titan::analyzer {

// Appended: a hang stays the head.
void add_timing_findings(const Run& run, const Timing& timing, std::vector<Finding>& findings);

}  // namespace titan::analyzer

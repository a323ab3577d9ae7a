// Metrics of the program that are no numbers any more.
#pragma once

#include <vector>

#include "finding.h"

namespace titan::analyzer {

// Appended: what hangs stays the head.
void add_metric_findings(const Run& run, std::vector<Finding>& findings);

}  // namespace titan::analyzer

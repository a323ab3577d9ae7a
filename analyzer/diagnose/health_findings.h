// What the readings of GPUs and network ports say: faults of their own, and the state of the GPU of ranks that are
// named.
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// A finding for each kind of fault.
void add_health_findings(const Run& run, std::vector<Finding>& findings);

// Adds the state of the GPUs of each named rank of what hangs or is slow as evidence, and the faults of its host.
void add_health(const Evidence& evidence, std::vector<Finding>& findings);

}  // namespace titan::analyzer

// Where there is no record at all, and witnesses alone speak: what they name is a finding, and never a certain one.
#pragma once

#include "finding.h"

namespace titan::analyzer {

Diagnosis diagnose_by_witnesses(const Run& run);

// Where NCCL's RAS considers a rank dead that no finding names and no record shows alive, what hangs may hang because
// of it.
void doubt_by_witnesses(const Run& run, std::vector<Finding>& findings);

}  // namespace titan::analyzer

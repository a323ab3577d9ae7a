// Diagnosis without any record, by witnesses alone: their findings are never certain.
#pragma once

#include "finding.h"

namespace titan::analyzer {

Diagnosis diagnose_by_witnesses(const Run& run);

// NCCL's RAS may consider a rank dead that no finding names and no record shows alive: the hang may be due to it.
void doubt_by_witnesses(const Run& run, std::vector<Finding>& findings);

}  // namespace titan::analyzer

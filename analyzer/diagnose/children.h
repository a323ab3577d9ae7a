// What the child processes of the named ranks tell: data loaders, savers of checkpoints.
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// Adds as evidence which children of a named rank have failed, and where those are that it waits for.
void add_children(const Evidence& evidence, std::vector<Finding>& findings);

}  // namespace titan::analyzer

// What the program itself said last on the ranks that are named.
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// Adds the open span of each named rank of what hangs where the program told facts of it, its newest event, metrics and
// error, as evidence.
void add_last_events(const Evidence& evidence, std::vector<Finding>& findings);

}  // namespace titan::analyzer

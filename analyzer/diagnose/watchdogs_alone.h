// What the logs of PyTorch's watchdogs name where no rank left a record.
#pragma once

#include <optional>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// The ranks that did not come to the call in which the others wait. None: the logs tell of no such call, or all wait.
std::optional<Finding> find_by_watchdogs(const Run& run);

}  // namespace titan::analyzer

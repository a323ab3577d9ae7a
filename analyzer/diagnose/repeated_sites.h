// Call sites in a finding: a chain of callers is long, and told once.
#pragma once

#include <string>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// Takes those out of the evidence that an earlier line of it has of the same ranks.
void tell_sites_once(const Run& run, std::vector<Finding>& findings);
// The state of a rank without a call site that the evidence has.
std::string without_told_site(const Run& run, const Finding& finding, int rank, std::string state);

}  // namespace titan::analyzer

// Steps of a diagnosis behind the finders (diagnose.cpp).
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// Where nothing hangs: who waits for longer than usual because somebody has not come.
std::vector<Pending> find_pending(const Evidence& evidence, const std::vector<Finding>& findings);
// Ranks that are stuck beside those that are named, and owe a call that is queued behind what hangs.
void add_second_causes(const Evidence& evidence, std::vector<Finding>& findings);
// Where the culprits stand, and where their way parts from that of the others.
void add_positions(const Evidence& evidence, std::vector<Finding>& findings);

}  // namespace titan::analyzer

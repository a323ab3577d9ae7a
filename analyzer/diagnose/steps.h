// Steps of a diagnosis behind the finders (diagnose.cpp).
#pragma once

#include <vector>

#include "evidence.h"
#include "finding.h"

namespace titan::analyzer {

// If nothing hangs: ranks that wait for longer than usual because somebody has not come.
std::vector<Pending> find_pending(const Evidence& evidence, const std::vector<Finding>& findings);
// Ranks that are stuck beside those that are named, and owe a call that is queued behind what hangs.
void add_second_causes(const Evidence& evidence, std::vector<Finding>& findings);
// Plays the calls as the head finding says they should have been, tells what ends, and doubts it if that is not all.
void replay_verdict(const Evidence& evidence, std::vector<Finding>& findings);
// Adds the positions of the culprits, and the frame where they part from the others.
void add_positions(const Evidence& evidence, std::vector<Finding>& findings);
// Settings and machines that differ: beside what hangs in flight or in a creation, else a warning. Last, when all
// findings are there.
void tell_config(const Run& run, Diagnosis& diagnosis);

}  // namespace titan::analyzer

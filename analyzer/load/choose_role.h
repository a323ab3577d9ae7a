// Processes of one job whose ranks are numbered alike: a trainer, and generators beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

// True if both say so, and say different things: of two processes with one rank neither replaced the other.
bool is_of_other_role(const Process& a, const Process& b);
// Where two roles use a rank, one of them stays: `wanted` if it is named, otherwise the one that dumped for a hang,
// that has most ranks, or whose name comes first, in this order. A warning names those that are left out. An error
// where there is no such role.
std::optional<Error> choose_role(std::vector<Process>& processes, const std::string& wanted,
                                 std::vector<Warning>& warnings);

}  // namespace titan::analyzer

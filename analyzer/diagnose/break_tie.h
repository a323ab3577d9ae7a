// Ranks that wait for each other: which of them does what it never did, or what its like do not do?
#pragma once

#include <cstdint>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// Of ranks that wait for each other, the one whose calls part from those of its role, or from its own past, is the
// suspect.
bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding);

}  // namespace titan::analyzer

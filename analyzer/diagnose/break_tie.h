// Ranks that wait for each other: which of them does what it never did, or what its like do not do?
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// Among ranks that wait for each other, suspects the one whose calls differ from those of its role, or from its own
// past.
bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding);

// Processes that wait in a node in a call other than what they always made in its place before.
std::set<uint32_t> deviating_in(const Evidence& evidence, uint32_t node);

}  // namespace titan::analyzer

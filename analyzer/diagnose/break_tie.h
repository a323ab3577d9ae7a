// Ranks that wait for each other: which of them does what it never did, or what its like do not do?
#pragma once

#include <cstdint>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// Where ranks wait for each other, or nothing tells for what, suspects the only rank of the job whose calls differ from
// those of its role, or the one of these whose calls differ from its own past.
bool break_tie(const Evidence& evidence, const std::vector<uint32_t>& nodes, Finding& finding);

// It waits in a call other than what its process always made in its place before.
bool deviates(const Evidence& evidence, const Waiter& waiter);
// The process does so in this node.
bool deviates_in(const Evidence& evidence, uint32_t node, uint32_t process);

}  // namespace titan::analyzer

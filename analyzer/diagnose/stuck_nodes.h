// Calls that everybody reached and that do not finish, as far as no other cause explains them.
#pragma once

#include <cstdint>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// Everybody came, nobody is blocked, and nothing explains the wait yet.
bool all_arrived(const Evidence& evidence, const ToldSoFar& told, uint32_t index);
// Everybody is there and it does not finish, or a stream never came to it: either the cause is there, or that stream
// waits for another one. So only waits that can follow from no other cause count, and of those the first.
std::vector<uint32_t> first_stuck_nodes(const Evidence& evidence, const ToldSoFar& told);

}  // namespace titan::analyzer

// Creations that wait for each other, and may be meant to be one.
#pragma once

#include <cstdint>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// True if these communicators have one name and size, no rank is in two of them, and no two ranks are the same member.
bool may_be_one_communicator(const Evidence& evidence, const std::vector<uint32_t>& nodes);

}  // namespace titan::analyzer

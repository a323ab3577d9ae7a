// Creations that wait for each other, and may be meant to be one.
#pragma once

#include <cstdint>
#include <vector>

#include "evidence.h"

namespace titan::analyzer {

// Of one name and size, and nobody in two of them, nor two of them as one member.
bool may_be_one_communicator(const Evidence& evidence, const std::vector<uint32_t>& nodes);

}  // namespace titan::analyzer

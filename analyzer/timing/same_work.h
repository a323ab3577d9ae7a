// Finds ranks that do the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// Ranks with the same number do the same work, as far as the communicators tell. By process.
std::vector<uint32_t> roles_of(const Run& run);

}  // namespace titan::analyzer

// Finds ranks that do the same work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// Whether a rank that sends to so many others of a communicator of `size`, and receives from so many, takes part in an
// all-to-all: most of them, and more than the neighbours that a stage of a pipeline has.
bool is_all_to_all(int size, size_t sent_to, size_t received_from);

// Ranks with the same number do the same work, as far as the communicators tell. By process.
std::vector<uint32_t> roles_of(const Run& run);

}  // namespace titan::analyzer

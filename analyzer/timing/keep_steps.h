// Leaves of a run's times only those of some steps: who was late then, and what those steps would take.
#pragma once

#include <cstdint>
#include <utility>

#include "run.h"

namespace titan::analyzer {

// False: no step of them is on record, or the program marks none.
bool keep_steps(Run& run, std::pair<int64_t, int64_t> first_and_last);

}  // namespace titan::analyzer

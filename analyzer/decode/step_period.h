// Steps of a program that marks none: what its calls repeat.
#pragma once

#include <cstdint>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// The whole periods of the process' calls, numbered alike on all ranks. `launches_ns`: when the host launched
// something, in order; they are on record from `since_ns` on. None where the calls repeat in no period.
std::vector<StepProfile> steps_by_period(const Process& process, const std::vector<int64_t>& launches_ns,
                                         int64_t since_ns);

}  // namespace titan::analyzer

// Waits for the GPU that a watchdog calls a hang, whatever is recorded of the call that they are for.
#pragma once

#include <cstdint>

#include "run.h"

namespace titan::analyzer {

// For how long some thread of the process has waited, if that is nearly its timeout and a watchdog of the run called a
// hang; else 0.
int64_t hangs_for_ns(const Run& run, const Process& process);

}  // namespace titan::analyzer

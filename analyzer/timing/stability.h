// Whether a rank that looks late still does so without any one other rank or host.
#pragma once

#include "timing.h"

namespace titan::analyzer {

// For ranks with a pattern.
void find_contradictions(const Run& run, Timing& timing);

}  // namespace titan::analyzer

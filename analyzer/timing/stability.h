// Checks whether a rank that looks late still does so without any one other rank or host.
#pragma once

#include "lateness.h"
#include "timing.h"

namespace titan::analyzer {

// Only for ranks with a pattern.
void find_contradictions(const Run& run, const Lateness& lateness, Timing& timing);

}  // namespace titan::analyzer

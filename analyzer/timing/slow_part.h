// Finds the part of its step that makes a rank late.
#pragma once

#include "timing.h"

namespace titan::analyzer {

// Only for ranks with a pattern.
void find_slow_parts(const Run& run, Timing& timing);

}  // namespace titan::analyzer

// Which part of its step makes a rank late.
#pragma once

#include "timing.h"

namespace titan::analyzer {

// For ranks with a pattern.
void find_slow_parts(const Run& run, Timing& timing);

}  // namespace titan::analyzer

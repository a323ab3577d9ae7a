// The timing of a run, step by step of the analysis.
#pragma once

#include "timing.h"

namespace titan::analyzer {

Timing analyze_timing(const Run& run);

}  // namespace titan::analyzer

// The lateness of each rank against its peers in the collectives that they share.
#pragma once

#include <vector>

#include "timing.h"

namespace titan::analyzer {

// Fills axes and ranks, but for shapes and parts. `excluded`: by process, as if its file were lost.
void measure_lateness(const Run& run, Timing& timing, const std::vector<bool>& excluded = {});

}  // namespace titan::analyzer

// The lateness of each rank against its peers in the collectives that they share.
#pragma once

#include "timing.h"

namespace titan::analyzer {

// Fills axes and ranks, but for shapes and parts.
void find_lateness(const Run& run, Timing& timing);

}  // namespace titan::analyzer

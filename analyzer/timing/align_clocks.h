// One time for all hosts, from the collectives themselves: nobody leaves a barrier-like collective before the last
// member came to it, and all leave it nearly together.
#pragma once

#include <cstdint>
#include <vector>

#include "clocks.h"
#include "run.h"

namespace titan::analyzer {

Clocks align_clocks(const Run& run);

// The parts of it, for tests. One comparison of a clock with another: their difference lies between the limits.
struct ClockSample {
    int64_t at_ns = 0;  // of the clock that is aligned
    double least_ns = 0;
    double most_ns = 0;
    double likely_ns = 0;  // difference of the ends
    double likely_error_ns = 0;
    int64_t order_ns = 0;  // of the other clock: the one that is aligned may be set back
};
std::vector<ClockStretch> fit_clock(std::vector<ClockSample> samples);

}  // namespace titan::analyzer

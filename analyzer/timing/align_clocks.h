// One time for all hosts, from the collectives themselves: nobody leaves a barrier-like collective before the last
// member came to it, and all leave it nearly together.
//
//    host a (reference)   --arrives(a)-------------------------------leaves(a)-->
//    host b                        --------------arrives(b)--------------leaves(b)-->
//
// The offset of b is b's clock minus a's at the same moment. Nobody leaves before the other has arrived:
//
//    least = arrives(b) - leaves(a)   <=   offset   <=   leaves(b) - arrives(a) = most
//    likely = leaves(b) - leaves(a), with an error as large as ends of one collective lie apart
//
// Each collective gives such a ClockSample. The offset changes by drift, so that the limits are a corridor over time:
//
//    offset |  ~~~ most ~~~~~~~~~~~~~~~~
//           |     x    x  likely   x    x        ~~~ most ~~~~~
//           |  ___ least ______________             x    x    x
//           |                                    ___ least ____
//           +-------------------------------------------------> time
//                  stretch 1              clock set   stretch 2
//
// A ClockStretch is a line through the likely ones inside the corridor, and bound_ns is how far another line that the
// corridor allows can lie from it. Where no line fits any more, the clock was set: there the next stretch begins.
#pragma once

#include <cstdint>
#include <vector>

#include "clocks.h"
#include "run.h"

namespace titan::analyzer {

Clocks align_clocks(const Run& run);

// The parts of it, for tests. One comparison of a clock with another: their difference lies between the limits.
struct ClockSample {
    int64_t at_ns = 0;  // time on the clock that is aligned
    double least_ns = 0;
    double most_ns = 0;
    double likely_ns = 0;  // difference of the ends
    double likely_error_ns = 0;
    int64_t order_ns = 0;  // time on the other clock: the one that is aligned may be set back
};
std::vector<ClockStretch> fit_clock(std::vector<ClockSample> samples);

}  // namespace titan::analyzer

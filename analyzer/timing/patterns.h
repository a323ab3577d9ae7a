// The shape of a series of costs: persistent, periodic, irregular, or chance.
#pragma once

#include <cstddef>
#include <vector>

#include "timing.h"

namespace titan::analyzer {

const char* name_of(LatePattern pattern);

// Fewer in a row are no pattern.
inline constexpr size_t kLeastHits = 8;

struct ShapeLimits {
    double least_ns = 0;   // costs below are nothing
    double length_ns = 0;  // length of a key
    double long_ns = 0;    // TimeAxis::long_ns
    double seen_ns = 0;
    double base_rate = 0.02;  // frequency at which others are late
    double trials = 1;        // series that are looked at: chance has as many chances
    // So many in a row are a pattern where each costs kLongPause of a key.
    size_t least_long_hits = kLeastHits;
};
// Costs from there on count as late. A slow step has a tail in the next one: what is far below the usual does not.
double late_from_ns(const std::vector<double>& costs, double least_ns);
// Costs by key. Pure.
LateShape shape_of(const std::vector<double>& costs, const ShapeLimits& limits);
// Pauses are seldom: what comes in more of the keys is how a rank works.
inline constexpr double kSeldom = 0.34;
// So many pauses of such a length (share of a key) are no chance, however rare they are.
inline constexpr size_t kLeastLongPauses = 3;
inline constexpr double kLongPause = 0.3;
// Irregular if there are so many costs that are so large; the caller asks that others have far fewer.
LateShape shape_of_long_pauses(const std::vector<double>& costs, const ShapeLimits& limits);

}  // namespace titan::analyzer

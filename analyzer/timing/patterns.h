// The shape of a series of costs: persistent, periodic, irregular, or chance.
#pragma once

#include <vector>

#include "timing.h"

namespace titan::analyzer {

const char* name_of(LatePattern pattern);

struct ShapeLimits {
    double least_ns = 0;   // costs below are nothing
    double length_ns = 0;  // length of a key
    double long_ns = 0;    // TimeAxis::long_ns
    double seen_ns = 0;
    double base_rate = 0.02;  // frequency at which others are late
    double trials = 1;        // series that are looked at: chance has as many chances
};
// Costs by key. Pure.
LateShape shape_of(const std::vector<double>& costs, const ShapeLimits& limits);
// Irregular if there are a few costs that are as large as half a key; what is rare is no chance if it is so large.
LateShape shape_of_long_pauses(const std::vector<double>& costs, const ShapeLimits& limits);

// The shape of each rank's costs.
void classify(Timing& timing);

}  // namespace titan::analyzer

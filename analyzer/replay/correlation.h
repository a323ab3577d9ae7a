// How well two series go together, and how well they must; and where one changes.
#pragma once

#include <cstddef>
#include <vector>

namespace titan::analyzer {

// Pearson's coefficient of two series of equal length, -1 to 1; 0 where one of them does not change.
double correlation(const std::vector<double>& a, const std::vector<double>& b);

// What the best of some dozens of series seldom reaches by chance with another one, each of so many values; 1 or more
// where these are too few to tell.
double least_correlation(size_t values);

// Where the values become larger: the place that divides them into two parts whose means differ most, with at least so
// many values on each side; 0 where the second part is nowhere larger.
size_t rise_of(const std::vector<double>& values, size_t least_on_a_side);

}  // namespace titan::analyzer

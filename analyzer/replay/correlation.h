// How well two series go together, and how well they must.
#pragma once

#include <cstddef>
#include <vector>

namespace titan::analyzer {

// Pearson's coefficient of two series of equal length, -1 to 1; 0 where one of them does not change.
double correlation(const std::vector<double>& a, const std::vector<double>& b);

// What the best of some dozens of series seldom reaches by chance with another one, each of so many values; 1 or more
// where these are too few to tell.
double least_correlation(size_t values);

}  // namespace titan::analyzer

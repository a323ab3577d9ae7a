// Statistics that a few wild values do not move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace titan::analyzer {

// The value that a share of `quantile` of the values does not exceed; 0 without values. Of an even number the lower
// middle is the median: two values have no middle that anybody measured.
double quantile_of(std::vector<double> values, double quantile);
inline double median_of(std::vector<double> values) { return quantile_of(std::move(values), 0.5); }
// By how much the last of them, of which there are some, is larger than usual; 0: by nothing.
inline double last_above_usual(std::vector<double> values) {
    const double last = values.back();
    return std::max(0.0, last - median_of(std::move(values)));
}
// The upper median of durations, exactly; 0 without any.
int64_t typical_of(std::vector<int64_t> durations_ns);
// Standard deviation of a normal distribution with the same median distance from the median.
double spread_of(const std::vector<double>& values);
// Likewise of values of which it is given by how much each differs from the one before: what changes once, for all
// behind it, does not count.
double spread_of_changing(const std::vector<double>& changes);

}  // namespace titan::analyzer

#include "robust.h"

#include <algorithm>
#include <cmath>

#include "host/mapped.h"

namespace titan::analyzer {

double quantile_of(std::vector<double> values, double quantile) {
    if (values.empty()) {
        return 0;
    }
    const double place = quantile * static_cast<double>(values.size() - 1);
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::floor(place));
    std::nth_element(values.begin(), nth, values.end());
    return *nth;
}

double spread_of(const std::vector<double>& values) {
    const double median = median_of(values);
    std::vector<double> distances = mapped(values, [&](const double value) { return std::abs(value - median); });
    return 1.4826 * median_of(std::move(distances));
}

double spread_of_changing(const std::vector<double>& changes) { return spread_of(changes) / std::sqrt(2.0); }

int64_t typical_of(std::vector<int64_t> durations_ns) {
    if (durations_ns.empty()) {
        return 0;
    }
    const auto middle = durations_ns.begin() + static_cast<std::ptrdiff_t>(durations_ns.size() / 2);
    std::nth_element(durations_ns.begin(), middle, durations_ns.end());
    return *middle;
}

}  // namespace titan::analyzer

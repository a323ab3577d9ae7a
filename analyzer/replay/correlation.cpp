#include "correlation.h"

#include <cmath>
#include <numeric>

namespace titan::analyzer {
namespace {

constexpr double kBestByChance = 4;  // standard errors

}  // namespace

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
    double mean_a = 0, mean_b = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        mean_a += a[i] / static_cast<double>(a.size());
        mean_b += b[i] / static_cast<double>(a.size());
    }
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// By Fisher's transformation, which makes the errors normal.
double least_correlation(size_t values) {
    return values <= 3 ? 1 : std::tanh(kBestByChance / std::sqrt(static_cast<double>(values) - 3));
}

size_t rise_of(const std::vector<double>& values, size_t least_on_a_side) {
    const double all = std::accumulate(values.begin(), values.end(), 0.0);
    size_t place = 0;
    double most = 0, sum = 0;
    for (size_t i = 1; i < values.size(); ++i) {
        sum += values[i - 1];
        const auto before = static_cast<double>(i), behind = static_cast<double>(values.size() - i);
        const double apart = (all - sum) / behind - sum / before;
        if (i >= least_on_a_side && i + least_on_a_side <= values.size() && apart > 0 &&
            apart * apart * before * behind > most) {
            most = apart * apart * before * behind;
            place = i;
        }
    }
    return place;
}

}  // namespace titan::analyzer

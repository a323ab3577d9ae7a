#include "value_sketch.h"

#include <algorithm>
#include <cmath>

namespace titan::analyzer {
namespace {

constexpr double kBinRatio = 1.02;
constexpr double kSmallest = 1e-300;   // what is less counts as 0
constexpr int32_t kBinOfOne = 40'000;  // puts the bins of all doubles above 0

// Below 0 for negative values, and in the order of the values.
int32_t bin_of(double value) {
    if (std::abs(value) < kSmallest) {
        return 0;
    }
    const int32_t bin = kBinOfOne + static_cast<int32_t>(std::floor(std::log(std::abs(value)) / std::log(kBinRatio)));
    return value < 0 ? -bin : bin;
}

double middle_of(int32_t bin) {
    if (bin == 0) {
        return 0;
    }
    const double size = std::pow(kBinRatio, std::abs(bin) - kBinOfOne + 0.5);
    return bin < 0 ? -size : size;
}

}  // namespace

void ValueSketch::add(double mean, uint64_t count, double most) {
    const auto weight = static_cast<double>(count);
    bins_[bin_of(mean)] += count;
    least_ = count_ == 0 ? mean : std::min(least_, mean);
    most_ = count_ == 0 ? most : std::max(most_, most);
    count_ += count;
    sum_ += mean * weight;
    const double from_mean = mean - running_mean_;
    running_mean_ += from_mean * weight / static_cast<double>(count_);
    deviations_ += from_mean * (mean - running_mean_) * weight;
}

double ValueSketch::std() const { return count_ == 0 ? 0 : std::sqrt(deviations_ / static_cast<double>(count_)); }

double ValueSketch::quantile(double quantile) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (const auto& [bin, count] : bins_) {
        seen += count;
        if (seen >= wanted) {
            return std::clamp(middle_of(bin), least_, most_);
        }
    }
    return 0;
}

}  // namespace titan::analyzer

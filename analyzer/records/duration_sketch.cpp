#include "duration_sketch.h"

#include <algorithm>
#include <cmath>

namespace titan::analyzer {
namespace {

constexpr double kBinRatio = 1.02;

int32_t bin_of(int64_t duration_ns) {
    return duration_ns <= 0 ? -1
                            : static_cast<int32_t>(std::log(static_cast<double>(duration_ns)) / std::log(kBinRatio));
}

double middle_of(int32_t bin) { return bin < 0 ? 0 : std::pow(kBinRatio, bin + 0.5); }

}  // namespace

void DurationSketch::add(int64_t duration_ns) {
    duration_ns = std::max<int64_t>(duration_ns, 0);
    const auto ns = static_cast<double>(duration_ns);
    ++bins_[bin_of(duration_ns)];
    ++count_;
    sum_ns_ += ns;
    squares_ += ns * ns;
    least_ns_ = std::min(least_ns_, duration_ns);
    most_ns_ = std::max(most_ns_, duration_ns);
}

void DurationSketch::add(const DurationSketch& other) {
    for (const auto& [bin, count] : other.bins_) {
        bins_[bin] += count;
    }
    count_ += other.count_;
    sum_ns_ += other.sum_ns_;
    squares_ += other.squares_;
    least_ns_ = std::min(least_ns_, other.least_ns_);
    most_ns_ = std::max(most_ns_, other.most_ns_);
}

double DurationSketch::std_ns() const {
    return count_ == 0 ? 0 : std::sqrt(std::max(0.0, squares_ / static_cast<double>(count_) - mean_ns() * mean_ns()));
}

double DurationSketch::quantile_ns(double quantile) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (const auto& [bin, count] : bins_) {
        seen += count;
        if (seen >= wanted) {
            return std::clamp(middle_of(bin), static_cast<double>(least_ns()), static_cast<double>(most_ns_));
        }
    }
    return 0;
}

}  // namespace titan::analyzer

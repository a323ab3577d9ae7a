// Durations in bins that are 2 % wide: quantiles of any number of them in some kilobytes. Count, sum and extremes are
// exact.
#pragma once

#include <cstdint>
#include <map>

namespace titan::analyzer {

class DurationSketch {
  public:
    void add(int64_t duration_ns);
    void add(const DurationSketch& other);

    uint64_t count() const { return count_; }
    double sum_ns() const { return sum_ns_; }
    double mean_ns() const { return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_); }
    double std_ns() const;  // of all of them, not of a sample
    int64_t least_ns() const { return count_ == 0 ? 0 : least_ns_; }
    int64_t most_ns() const { return most_ns_; }
    // The duration that a share of `quantile` does not exceed, to 1 %; 0 without any.
    double quantile_ns(double quantile) const;

  private:
    std::map<int32_t, uint64_t> bins_;  // logarithms of durations
    uint64_t count_ = 0;
    double sum_ns_ = 0;
    double squares_ = 0;
    int64_t least_ns_ = INT64_MAX;
    int64_t most_ns_ = 0;
};

}  // namespace titan::analyzer

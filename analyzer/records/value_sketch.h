// Values in bins that are 2 % wide: quantiles of any number of them in some kilobytes. Count, sum, mean, standard
// deviation and extremes are exact.
#pragma once

#include <cstdint>
#include <map>

namespace titan::analyzer {

class ValueSketch {
  public:
    // A finite number.
    void add(double value) { add(value, 1, value); }
    // So many values of which only the mean and the greatest are known.
    void add(double mean, uint64_t count, double most);

    uint64_t count() const { return count_; }
    double sum() const { return sum_; }
    double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
    double std() const;  // of all of them, not of a sample
    double least() const { return least_; }
    double most() const { return most_; }
    // The value that a share of `quantile` does not exceed, to 1 %; 0 without any.
    double quantile(double quantile) const;

  private:
    std::map<int32_t, uint64_t> bins_;  // logarithms of values, with their signs
    uint64_t count_ = 0;
    double sum_ = 0;
    double running_mean_ = 0;
    double deviations_ = 0;  // squared, from the running mean (Welford): no digits are lost far from 0
    double least_ = 0;
    double most_ = 0;
};

}  // namespace titan::analyzer

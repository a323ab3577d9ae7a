// The metrics of a program, step by step, joined over the ranks as the program says (titan_metric_as), with who
// reported and who did not.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "records.h"

namespace titan::analyzer {

// A metric in one step. Steps are -1 before the first.
struct StepMetric {
    int64_t step = -1;
    std::string role;  // where ranks count within roles (ProcessRecords::role): only those of one are joined
    std::string name;
    format::MetricReduction reduction = format::MetricReduction::kNotTold;
    // Joined; where the program does not tell how, the mean of the newest value of each rank. Without: kNone.
    bool has_value = false;
    double value = 0;
    int64_t newest_ns = 0;  // when the newest of its values was told, CLOCK_REALTIME
    uint64_t values = 0;    // of all ranks
    double lowest = 0;      // of finite values, as are the next three; ranks -1 where there are none
    double highest = 0;
    int lowest_rank = -1;
    int highest_rank = -1;
    std::vector<int> not_finite;     // ranks with a value that is none
    std::vector<int> missing;        // ranks that were in this step and reported none
    std::vector<int> not_on_record;  // ranks whose markers of this step are overwritten, or without any
    uint64_t reported = 0;           // ranks
};

// Takes ranks one after another. Not thread-safe. Where there is more than it may keep, the oldest steps go.
class StepMetrics {
  public:
    static constexpr size_t kMostRows = 1 << 19;  // metrics in a step

    explicit StepMetrics(size_t most_rows = kMostRows) : most_rows_(most_rows) {}

    // Of some steps alone where these are wanted.
    void add(const ProcessRecords& records, const StepRange& steps = {});
    // By step, then by role and name.
    std::vector<StepMetric> joined() const;
    // Says which steps are not kept; empty: all are.
    std::string left_out() const;
    // Ranks whose records hold no value of that metric at all, as stages of a pipeline without a loss.
    std::vector<int> never_reported(const StepMetric& metric) const;

  private:
    struct Rank {
        int rank;
        std::string role;
        int64_t from_step;  // the first step of which all markers are on record
        int64_t newest_step;
    };
    struct Sums {
        format::MetricReduction reduction = format::MetricReduction::kNotTold;
        uint64_t values = 0;
        double weights = 0, weighted = 0, sum = 0, squares = 0;
        double newest = 0, newest_of_others = 0;  // of the rank that was added last, and summed over those before it
        double last = 0;
        int64_t last_ns = INT64_MIN;
        double least = HUGE_VAL, greatest = -HUGE_VAL;  // NaN where a value is
        double lowest = 0, highest = 0;
        int lowest_rank = -1, highest_rank = -1;
        std::vector<int> not_finite;
        std::vector<bool> reported;  // by place in ranks_
    };
    using Name = std::pair<std::string, std::string>;  // role and name
    using Key = std::pair<int64_t, Name>;

    // Nothing of a step that is not kept.
    Sums* sums_of(const Key& key);
    void take(Sums& sums, double value, double weight, int64_t at_ns);
    double value_of(const Sums& sums) const;

    size_t most_rows_;
    std::optional<int64_t> kept_from_;
    std::vector<Rank> ranks_;
    std::map<Key, Sums> sums_;
    std::map<Name, std::vector<bool>> ever_;  // reported by place in ranks_
};

}  // namespace titan::analyzer

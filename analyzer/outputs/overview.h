// A process over the whole run at low detail: groups of steps, and what a step of each is made of. As large for a
// million steps as for a thousand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parts.h"
#include "perfetto_format.h"
#include "process_timeline.h"

namespace titan::analyzer {

class Overview {
  public:
    // At most so many groups.
    Overview(size_t most_groups, std::function<int64_t(int64_t realtime_ns)> common_ns)
        : most_groups_(most_groups), common_ns_(std::move(common_ns)) {}

    void collect(const Run& run, const ProcessRecords& records);
    bool empty() const { return groups_.empty(); }
    // As ProcessTimeline does.
    TimelineCounts write(PerfettoFormat& format, uint64_t process, uint64_t& next_track) const;

  private:
    struct Group {
        int64_t begin_ns = INT64_MAX;
        int64_t end_ns = INT64_MIN;
        int64_t last_step = 0;
        uint64_t steps = 0;
        double sum_ns = 0;
        double longest_ns = 0;
        std::map<std::string, double> parts_ns;  // spans by name, and calls of NCCL
        struct Values {
            double sum = 0;
            uint64_t count = 0;
        };
        std::map<std::string, Values> metrics;

        void add(const Group& other);
    };

    void add(const Part& part);
    void make_room();
    std::vector<std::string> longest_parts() const;

    size_t most_groups_;
    std::function<int64_t(int64_t realtime_ns)> common_ns_;
    int64_t steps_of_group_ = 1;
    std::map<int64_t, Group> groups_;  // by the number of their first step / steps_of_group_
};

}  // namespace titan::analyzer

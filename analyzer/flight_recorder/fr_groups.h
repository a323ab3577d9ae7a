// What it takes all Flight Recorder dumps of a run to know.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// Who is in which group, as any of the files tells. Thread-safe.
class GroupRanks {
  public:
    void add(uint64_t id, const std::vector<int32_t>& ranks);
    std::unordered_map<uint64_t, std::vector<int32_t>> take();

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, std::vector<int32_t>> ranks_;
};

// What takes all processes: members of groups that they never used, groups whose ranks no file tells, and the numbers
// of point-to-point calls whose beginning is lost. Before link().
void complete_flight_recorder(Run& run, GroupRanks& groups);
void warn_of_what_it_hides(Run& run);

}  // namespace titan::analyzer

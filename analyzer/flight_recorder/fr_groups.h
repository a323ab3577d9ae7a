// Facts that need all Flight Recorder dumps of a run.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "run.h"

namespace titan::analyzer {

// Members of each group, as any of the files names them. Thread-safe.
class GroupRanks {
  public:
    void add(uint64_t id, const std::vector<int32_t>& ranks);
    std::unordered_map<uint64_t, std::vector<int32_t>> take();

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, std::vector<int32_t>> ranks_;
};

// Completes what needs all processes: members of groups that they never used, groups whose ranks no file names, and the
// numbers of point-to-point calls whose beginning is lost. Before link().
void complete_flight_recorder(Run& run, GroupRanks& groups);
void warn_of_what_it_hides(Run& run);

}  // namespace titan::analyzer

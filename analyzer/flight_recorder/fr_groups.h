// Facts that need all Flight Recorder dumps of a run.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "formats/fr/fr_dump.h"
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

// --- When the files were made, which none of them says outright, and which of them are of another run.

// When the dump was made: from its entries, else the file's time, else what PyTorch's timeout leaves of it.
void set_moment(const format::fr::Dump& dump, Process& process);
// Finds files whose times are those of a copy: only all files together show that.
void compare_moments(Run& run);
// Leaves out files of an earlier run, which a rank that died without a dump left in the way.
void leave_out_stale(std::vector<Process>& processes, std::vector<Warning>& warnings);

}  // namespace titan::analyzer

// What takes the time of a run: its steps, the spans of the program and the calls of NCCL, each over all ranks. One
// process after the other, in memory that grows with names and ranks, not with records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "duration_sketch.h"
#include "records.h"

namespace titan::analyzer {

// In the order in which they are listed. kGpuCall: as long as they were seen to run; kHostCall: what no GPU was seen to
// run, as long as the host was inside.
enum class SummaryKind : uint8_t { kStep, kSpan, kGpuCall, kHostCall };

struct SummaryRow {
    SummaryKind kind{};
    std::string name;  // "step", the span's, or "all_reduce on dp": of all communicators of that role
    DurationSketch durations;
    std::map<int, DurationSketch> of_rank;
    uint64_t bytes = 0;      // calls: of all, as passed
    uint64_t bus_bytes = 0;  // calls: by nccl-tests' factor

    double bus_gb_per_s() const {
        return durations.sum_ns() > 0 ? static_cast<double>(bus_bytes) / durations.sum_ns() : 0;
    }
    // The rank whose mean is the largest; -1 of one rank.
    int slowest_rank() const;
};

struct SummaryOptions {
    std::optional<std::pair<int64_t, int64_t>> steps;
    uint64_t skip_steps = 0;  // the first ones on record, of each rank
};

// Not thread-safe.
class Summary {
  public:
    Summary(const Run& run, const SummaryOptions& options) : run_(run), options_(options) {}

    void add(const ProcessRecords& records);
    // By kind, then by their sum, the largest first.
    std::vector<const SummaryRow*> rows() const;
    // Of the steps of a row's ranks, as a share of 1; nothing where no step was seen from begin to end.
    std::optional<double> share_of_steps(const SummaryRow& row) const;
    uint64_t ranks() const { return ranks_; }
    uint64_t overwritten_markers() const { return overwritten_markers_; }
    uint64_t names_left_out() const { return names_left_out_; }

  private:
    class Reader;
    using Key = std::pair<SummaryKind, std::string>;

    SummaryRow* row_of(SummaryKind kind, const std::string& name);

    const Run& run_;
    SummaryOptions options_;
    std::map<Key, SummaryRow> rows_;
    uint64_t ranks_ = 0;
    uint64_t overwritten_markers_ = 0;
    uint64_t names_left_out_ = 0;  // durations of names beyond what is kept
};

}  // namespace titan::analyzer

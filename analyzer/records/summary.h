// What takes the time of a run: its steps, the spans of the program and the calls of NCCL; and its metrics. Each over
// all ranks. One process after the other, in memory that grows with names and ranks, not with records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parts.h"
#include "records.h"
#include "value_sketch.h"

namespace titan::analyzer {

// --- What a run gets done: steps and tokens per second, and the share of the GPUs' arithmetic that the model uses
// (MFU).

// 0: not told.
struct WorkOfAStep {
    double tokens_per_step = 0;  // of all ranks together
    double flops_per_token = 0;  // forward and backward
    double peak_tflops = 0;      // of one GPU
};

struct Throughput {
    int ranks = 0;  // of the job
    double step_ns = 0;
    std::optional<double> tokens_per_s;  // of all ranks
    std::optional<double> mfu;           // 1: all that the GPUs can
    double peak_tflops = 0;              // of one GPU, 0 unknown

    double steps_per_s() const { return 1e9 / step_ns; }
};

// `step_ns` and `ranks` are above 0.
Throughput throughput_of(const WorkOfAStep& work, double step_ns, int ranks);

// BF16 without sparsity, by NVIDIA's data sheets (FP16 where a GPU has no BF16); 0: not known. `gpus` as in a dump: "8
// x NVIDIA H100 80GB HBM3". Thread-safe.
double peak_tflops_of(std::string_view gpus);

// Sums over all parts (parts.h) of one kind and name.
struct SummaryRow {
    PartKind kind{};
    std::string name;  // in_role()
    std::string role;
    uint64_t up_to_bytes = 0;  // SummaryOptions::by_size: the size class, a power of two; 0: of all sizes
    ValueSketch values;        // nanoseconds; of metrics as the program gave them
    std::map<int, ValueSketch> of_rank;
    double in_steps_ns = 0;     // the sum of what began in steps
    uint64_t not_finite = 0;    // metrics: values that are NaN or infinite, and not among the others
    uint64_t calls = 0;         // of NCCL: more than there are values where some were over when the GPU was looked at
    uint64_t summed_calls = 0;  // of the values: only the mean and the greatest of a step are known
    uint64_t bytes = 0;         // of all calls, as passed
    uint64_t timed_bus_bytes = 0;  // of those with a value, by nccl-tests' factor

    double bus_gb_per_s() const { return values.sum() > 0 ? static_cast<double>(timed_bus_bytes) / values.sum() : 0; }
    // The ranks whose means are the largest and the smallest; -1 of one rank.
    int highest_rank() const;
    int lowest_rank() const;
};

// What has a row of its own. Calls are always told apart by the role of their communicator.
enum class SummaryBy : uint8_t { kRole, kRank, kHost, kCommunicator };

struct SummaryOptions {
    WantedSteps steps;
    SummaryBy by = SummaryBy::kRole;
    bool by_size = false;  // also one row for each size of the calls
    WorkOfAStep work;      // what is not told there, the labels and GPUs of the ranks tell
};

// Not thread-safe.
class Summary {
  public:
    Summary(const Run& run, const SummaryOptions& options) : run_(run), options_(options) {}

    void add(const ProcessRecords& records);
    // By kind, then by their sum, the largest first.
    std::vector<const SummaryRow*> rows() const;
    // Rows of calls of one size class each, in the order of their names, the smallest first.
    std::vector<const SummaryRow*> rows_by_size() const;
    // A share (0 to 1) of the steps of the row's ranks; nothing if no step was seen from begin to end, or if all of the
    // row is outside of steps.
    std::optional<double> share_of_steps(const SummaryRow& row) const;
    // Nothing where no step is known.
    std::optional<Throughput> throughput() const;
    uint64_t ranks() const { return ranks_; }
    // Ranks that could have such a row: those of its role.
    uint64_t ranks_beside(const SummaryRow& row) const;
    uint64_t flight_recorder_ranks() const { return flight_recorder_ranks_; }
    bool has_journal() const { return has_journal_; }
    uint64_t overwritten_markers() const { return overwritten_markers_; }
    uint64_t names_left_out() const { return names_left_out_; }
    uint64_t summed_calls() const { return summed_calls_; }

  private:
    using Key = std::tuple<PartKind, std::string, uint64_t>;  // up_to_bytes

    SummaryRow* row_of(const Part& part, uint64_t up_to_bytes);
    void add(const Part& part, int rank);
    Part grouped(const Part& part, const Process& process) const;
    void add_to(SummaryRow* row, const Part& part, int rank);

    const Run& run_;
    SummaryOptions options_;
    WorkOfAStep told_;  // by ranks; peaks are added up
    std::map<Key, SummaryRow> rows_;
    uint64_t ranks_ = 0;
    std::map<std::string, uint64_t> ranks_of_role_;
    uint64_t flight_recorder_ranks_ = 0;
    uint64_t ranks_with_peak_ = 0;
    bool has_journal_ = false;
    uint64_t overwritten_markers_ = 0;
    uint64_t summed_calls_ = 0;    // of all rows
    uint64_t names_left_out_ = 0;  // values of names beyond what is kept
};

}  // namespace titan::analyzer

// Writes a run as PyTorch Flight Recorder dumps, one file per rank, for PyTorch's own fr_trace and what else reads
// them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

struct FlightRecorderExport {
    std::string into;                         // directory, made if it is not there; must be empty
    std::string prefix = "nccl_trace_rank_";  // prefix of the file names; the rank follows
    std::function<void(size_t done, size_t total)> progress;
};

struct ExportResult {
    size_t files = 0;
    size_t calls = 0;
    std::vector<std::string> notes;     // facts that Flight Recorder's format cannot hold, for people
    std::vector<std::string> problems;  // ranks that could not be written
};

// Reads the sources of the run once more. Calls that fr_trace could not match are left out: those from before the point
// where the records of all members of a communicator begin. Error: the directory cannot be used.
Result<ExportResult> export_flight_recorder(const Run& run, const FlightRecorderExport& options);

}  // namespace titan::analyzer

// Files of PyTorch's Flight Recorder: their rank and their content.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/fr/fr_dump.h"
#include "formats/fr/tree.h"
#include "fr_groups.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

// Memory that serves file after file.
struct FlightRecorderScratch {
    std::vector<std::byte> bytes;
    format::fr::Tree tree;
};

// The rank that a file's name ends in, -1 where it has none: nccl_trace_rank_3, nccl_trace_rank_3.json.
int rank_in_name(std::string_view file_name);
// nccl_trace_rank_gpu-node02_5: the host before the rank; empty where it has none.
std::string_view host_in_name(std::string_view file_name);

// Once more, the file or the member of an archive that a process was loaded from.
Result<format::fr::Dump> read_flight_recorder(Source source, FlightRecorderScratch& scratch);
Result<Process> load_flight_recorder(const std::string& path, FlightRecorderScratch& scratch, GroupRanks& groups);
// Loads the bytes in the scratch: of the file that the source names, or of the member of an archive.
Result<Process> load_flight_recorder_bytes(Source source, FlightRecorderScratch& scratch, GroupRanks& groups);

// --- Dumps of torchcomms' recorder hook, which are PyTorch's in all but their numbers.

// Dumps of torchcomms get the numbers that PyTorch would give: by group, from 1. An error where nothing tells them.
std::optional<Error> number_by_group(format::fr::Dump& dump);

}  // namespace titan::analyzer

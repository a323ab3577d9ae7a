// Settings, versions and machines that differ between the ranks of a job.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct ConfigDifference {
    std::string name;
    std::vector<int> odd;  // ranks that differ from most; all where no value is that of most
    std::string text;      // "NCCL_ALGO is Ring on rank 3, and Tree on ranks 0-2,4-7"
};

// By name. What has several values and none that most ranks have, such as the network device of each rank, is left out,
// unless most ranks of each stage, tensor parallel rank and so on have one: then each of these is compared by itself.
// `among`: only these ranks, all where it is empty.
std::vector<ConfigDifference> config_differences(const Run& run, const std::set<int>& among = {});

// The settings of all ranks as a table: name, value, ranks. By name, the most frequent value first.
struct ConfigRow {
    std::string name;
    std::string value;  // empty: not set
    std::vector<int> ranks;
};
std::vector<ConfigRow> config_rows(const Run& run, const std::set<int>& among = {});

// What NCCL chose for one collective: algorithm, protocol, number of channels, as far as its profiler plugin interface
// told of members that have not finished it.
std::vector<ConfigDifference> call_differences(const Run& run, const Communicator& communicator, uint64_t sequence);

}  // namespace titan::analyzer

// Settings and versions that differ between the ranks of a job.
#pragma once

#include <string>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct ConfigDifference {
    std::vector<int> odd;  // ranks that differ from most; all where no value is that of most
    std::string text;      // "NCCL_ALGO is Ring on rank 3, and Tree on ranks 0-2,4-7"
};

// By name. What has several values and none that most ranks have, such as the network device of each rank, is left out.
std::vector<ConfigDifference> config_differences(const Run& run);

// The settings of all ranks as a table: name, value, ranks.
struct ConfigRow {
    std::string name;
    std::string value;  // empty: not set
    std::vector<int> ranks;
};
std::vector<ConfigRow> config_rows(const Run& run);

}  // namespace titan::analyzer

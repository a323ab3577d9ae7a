// The hosts of ranks that left no record.
#pragma once

#include <string>

#include "run.h"

namespace titan::analyzer {

// "node-39": launchers fill one host after the other with equally many ranks. Empty where the ranks that are known lie
// otherwise.
std::string likely_host(const Run& run, int rank);
// "rank 317 probably ran on node-39, as ranks 312-316,318-319 did"; empty where it is not known.
std::string likely_host_text(const Run& run, int rank);

}  // namespace titan::analyzer

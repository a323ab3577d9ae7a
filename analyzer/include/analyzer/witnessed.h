// What witnesses say, as far as it is of this run (Run::testimony).
#pragma once

#include "analyzer/run.h"

namespace titan::analyzer {

// Drops statements of other jobs: their processes have other pids, they are older than the run, or of another attempt. Names the ranks
// of those that tell a pid only. Before link(); files that are left out become a warning.
void keep_of_this_run(Run& run);

}  // namespace titan::analyzer

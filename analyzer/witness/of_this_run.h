// Which statements of witnesses are of this run (Run::testimony).
#pragma once

#include "run.h"

namespace titan::analyzer {

// Drops statements of other jobs: their processes have other pids, they are older than the run, or of another attempt.
// Names the ranks of those that tell a pid only. Before link(); files that are left out become a warning.
void keep_of_this_run(Run& run);

// Whether a statement can be of a process on that host: "node-3.cluster.example" and "node-3" are one, and not every
// witness tells.
bool same_host(const Testimony& said, const Process& process);

}  // namespace titan::analyzer

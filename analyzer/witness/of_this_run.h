// Chooses the statements of witnesses that are about this run (Run::testimony).
#pragma once

#include "run.h"

namespace titan::analyzer {

// Drops statements of other jobs: their processes have other pids, they are older than the run, or of another attempt.
// Names the ranks of those that tell a pid only. Before link(); files that are left out become a warning.
void keep_of_this_run(Run& run);

// True if a statement may be about a process on that host: "node-3.cluster.example" and "node-3" are the same, and not
// every witness names a host.
bool same_host(const Testimony& said, const Process& process);

}  // namespace titan::analyzer

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

// --- Ranks of communicators, of which NCCL and torchcomms speak, as ranks of the job.

bool speaks_of_communicators(const Testimony& said);

// Names the ranks in those statements, as far as records or the sizes tell. Without records the largest communicator
// is taken for the world.
void name_ranks_of_nccl(Run& run);

}  // namespace titan::analyzer

// What witnesses say, as far as it is of this run (Run::testimony).
#pragma once

#include <string>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// Drops statements of other jobs: their processes have other pids, they are older than the run, or of another attempt.
// Names the ranks of those that tell a pid only. Before link(); files that are left out become a warning.
void keep_of_this_run(Run& run);

// Whether a statement can be of a process on that host: "node-3.cluster.example" and "node-3" are one, and not every
// witness tells.
bool same_host(const Testimony& said, const Process& process);
// What tells most about how this rank ended; nullptr: nothing does.
const Testimony* witnessed_end(const Run& run, int rank);
// The one rank that a witness saw fail before all others, -1 where there is none, or witnesses differ.
int witnessed_first(const Run& run);
// Whether a rank without a record is known to have ended in failure, and not because others had.
bool died_unrecorded(const Run& run, int rank);
// "killed by SIGKILL: out of memory", "exited with status 1: RuntimeError: ..."; empty where no witness tells.
std::string witnessed_end_text(const Run& run, int rank);
// Adds what witnesses say about the ranks that findings name.
void add_testimony(const Run& run, std::vector<Finding>& findings);
// Of what NCCL says: the ranks of its communicators as ranks of the job, as far as records or the sizes tell. Without
// records the largest communicator is taken for the world.
void name_ranks_of_nccl(Run& run);
// Files that are known and not read become warnings.
void warn_of_unread(Run& run);

}  // namespace titan::analyzer

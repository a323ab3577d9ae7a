// The ends of ranks, as witnesses tell them (Run::testimony).
#pragma once

#include <string>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// The statement that tells most about how this rank ended; nullptr if none does.
const Testimony* witnessed_end(const Run& run, int rank);
// The one rank that a witness saw fail before all others, -1 where there is none, or witnesses differ.
int witnessed_first(const Run& run);
// True if a rank without a record is known to have ended in failure, and not because others had.
bool died_unrecorded(const Run& run, int rank);
// "killed by SIGKILL: out of memory", "exited with status 1: RuntimeError: ..."; empty where no witness tells.
std::string witnessed_end_text(const Run& run, int rank);
// "srun says (job.err): ...".
std::string quoted(const Testimony& said);
// Adds what witnesses say about the ranks that findings name.
void add_testimony(const Run& run, std::vector<Finding>& findings);

}  // namespace titan::analyzer

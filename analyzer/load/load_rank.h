// Chooses the file of one rank that counts: there may be several dumps of it.
#pragma once

#include <vector>

#include "discover.h"
#include "open_source.h"
#include "take_record.h"

namespace titan::analyzer {

// True if the opened record is of that process.
bool is_of(const OpenedSource& opened, const Process& process);

// The newest usable dump of `files`, or the one from before its process aborted its communicators; of archives and
// digests all that is in them. `first_in_job_ns`: when a process of the job first did so, 0 if that is not known: what
// a peer's abort ended or let go on counts as little as what its own did.
LoadOutcome load_rank(const std::vector<Candidate>& files, Loader& with, int64_t first_in_job_ns = 0);

}  // namespace titan::analyzer

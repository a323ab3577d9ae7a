// PyTorch's Flight Recorder dumps as processes of a run. Their own numbers are kept: a sequence number is PyTorch's
// collective_seq_id (from 1), a communicator is a process group, and its ranks are ranks in the group. Point-to-point
// calls between two ranks are counted here (from 0), because p2p_seq_id counts each rank's own calls.
//
// These dumps do not show the host's activity, streams, reductions, roots, calls inside CUDA graphs, or when the file
// was written (its modification time stands in). So a rank with an unfinished call is taken to be held in it, and
// claims about what was not recorded are made with less confidence.
#pragma once

#include "formats/fr/fr_dump.h"
#include "fr_groups.h"
#include "run.h"

namespace titan::analyzer {

// `written_ns`: the file's time.
Process process_of_dump(const format::fr::Dump& dump, int rank, int64_t written_ns, GroupRanks& groups);

}  // namespace titan::analyzer

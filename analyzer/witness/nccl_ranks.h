// Ranks of communicators, of which NCCL and torchcomms speak, as ranks of the job.
#pragma once

#include "run.h"

namespace titan::analyzer {

bool speaks_of_communicators(const Testimony& said);

// Names the ranks in those statements, as far as records or the sizes tell. Without records the largest communicator
// is taken for the world.
void name_ranks_of_nccl(Run& run);

}  // namespace titan::analyzer

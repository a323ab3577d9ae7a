// Ranks of NCCL's communicators as ranks of the job.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Names the ranks in statements of NCCL, as far as records or the sizes tell. Without records the largest communicator
// is taken for the world.
void name_ranks_of_nccl(Run& run);

}  // namespace titan::analyzer

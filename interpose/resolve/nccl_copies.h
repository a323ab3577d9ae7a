// The NCCL copies of this process, and what each can be asked about its communicators.
#pragma once

#include "tracer/record.h"

namespace titan::interpose {

// The questions for the copy that `function` belongs to; null when it lacks one of them. cold, any-thread.
const tracer::CommQueries* queries_of(const void* function);

// ncclGetVersion of the first copy that was asked for; 0 unknown.
int nccl_version();

}  // namespace titan::interpose

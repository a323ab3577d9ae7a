// The NCCL copies of this process, and what each can be asked about its communicators.
#pragma once

#include "tracer/record.h"

namespace titan::interpose {

// Is this address inside an object that defines NCCL? NCCL asks for CUDA's functions for its own use: it gets the real
// ones. Its work is recorded as its calls are; its threads are no threads of the program. any-thread.
bool is_nccl(const void* address);

// The questions for the copy that `function` belongs to; null when it lacks one of them. cold, any-thread.
const tracer::CommQueries* queries_of(const void* function);

// ncclGetVersion of the first copy that was asked for; 0 unknown.
int nccl_version();

}  // namespace titan::interpose

// Takes the stacks of the main thread and of those that call NCCL or CUDA about as often as TITANTRACE_STACK_SAMPLES_S
// says. For the watch thread, between dumps: both use the same memory.
#pragma once

#include <cstdint>

#include "session.h"

namespace titan::tracer {

// Once per session, after prepare_stacks().
void start_sampling(Session& session);

// Samples if it is due. `memory_is_free`: no dump lies there that is still to be written.
void poll_sampling(const Session& session, bool memory_is_free);

// The moment of the next sample (CLOCK_MONOTONIC), UINT64_MAX: there is none.
uint64_t next_sample_ns();

// Names functions in the samples of a copy of the ring. After collect_stacks.
void name_samples_of(const Session& session, char* ring_copy);

}  // namespace titan::tracer

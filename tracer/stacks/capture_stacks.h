// Captures the stacks of all threads of this process, as an image of formats/layout/stacks_layout.h. For the watch
// thread; after prepare_stacks() without the heap, the dynamic linker's lock or anything else that a stuck thread may
// hold.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

namespace titan::tracer {

class StackImage;

// Once per session, before its watch thread runs. `may_signal`: threads that run may be asked by a signal. False: no
// memory, no stacks.
bool prepare_stacks(bool may_signal);

// `crashing`: the thread that waits for the dump of its crash, 0 none. The image is valid until the next call. Empty
// without memory. Takes as long as threads take to answer, at most about a second.
std::span<const char> collect_stacks(int32_t crashing);

// The same of these threads alone, as they stand now: to be asked often, so that the stacks together tell where the
// threads spend their time. Exported functions get no names.
std::span<const char> sample_stacks(std::span<const pid_t> threads);

// Adds names of exported functions to an image that has frames of sample_stacks, by the modules that the newest
// collect_stacks has found. Takes 0.1 s at most.
void name_exported(StackImage& image);

void release_stacks_memory();
// All but what the next sample_stacks can use again.
void release_sampled_memory();

}  // namespace titan::tracer

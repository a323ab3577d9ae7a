// Captures the stacks of all threads of this process, as an image of formats/layout/stacks_layout.h. For the watch
// thread; after prepare_stacks() without the heap, the dynamic linker's lock or anything else that a stuck thread may
// hold.
#pragma once

#include <cstdint>
#include <span>

namespace titan::tracer {

// Once per session, before its watch thread runs. `may_signal`: threads that run may be asked by a signal. False: no
// memory, no stacks.
bool prepare_stacks(bool may_signal);

// `crashing`: the thread that waits for the dump of its crash, 0 none. The image is valid until the next call. Empty
// without memory. Takes as long as threads take to answer, at most about a second.
std::span<const char> collect_stacks(int32_t crashing);

void release_stacks_memory();

}  // namespace titan::tracer

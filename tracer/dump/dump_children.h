// The processes that this one started, as its dumps tell of them. Of the watch thread; no allocation.
#pragma once

#include <cstddef>

namespace titan::tracer {

inline constexpr size_t kChildrenBytes = 64 << 10;

// When a session starts: a forked process has none of its parent's children.
void forget_children();
// About once a second: who has come, who has ended.
void watch_children();

// The keys of the meta section that tell of children (FORMAT.md, section 5), each with a comma before it; empty where
// there is nothing to tell.
size_t write_children(char* out, size_t capacity_bytes, bool with_stacks);

}  // namespace titan::tracer

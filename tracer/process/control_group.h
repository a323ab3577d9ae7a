// The control group (version 2) of a process, as its path below the mount. signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace titan::tracer {

inline constexpr size_t kGroupPathBytes = 512;

// "/a/b"; `pid` 0: this process. False: it is not known, or lies outside of our namespace.
bool control_group(pid_t pid, char (&path)[kGroupPathBytes]);

}  // namespace titan::tracer

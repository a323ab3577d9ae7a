// The control group of a process, as its path below the mount. signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace titan::tracer {

inline constexpr size_t kGroupPathBytes = 512;

// "/a/b", of version 2; `pid` 0: this process. False: it is not known, or lies outside of our namespace.
bool control_group(pid_t pid, char (&path)[kGroupPathBytes]);

// In the text of a /proc/PID/cgroup: the group of version 2 (`controller` ""), or that of a controller of version 1.
bool find_group(const char* text, const char* controller, char (&path)[kGroupPathBytes]);

}  // namespace titan::tracer

// The control group of a process, as its path below the mount. signal-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace titan::tracer {

inline constexpr size_t kGroupPathBytes = 512;

// "/a/b", of version 2; `pid` 0: this process. False: it is not known, or lies outside of our namespace.
bool control_group(pid_t pid, char (&path)[kGroupPathBytes]);

// In the text of a /proc/PID/cgroup: the group of version 2 (`controller` ""), or that of a controller of version 1.
bool find_group(const char* text, const char* controller, char (&path)[kGroupPathBytes]);

struct MemoryEvents {
    bool is_readable;
    uint64_t high;       // slowed down above its soft limit; version 2 alone
    uint64_t max;        // the hard limit was reached
    uint64_t oom;        // an allocation was about to fail there; version 2 alone
    uint64_t oom_kills;  // processes that the OOM killer has killed
};

// `root` is "" but in tests.
MemoryEvents read_memory_events(const char* root);

}  // namespace titan::tracer

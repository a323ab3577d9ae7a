// What the limits on memory have done to our control group, since it exists. signal-safe.
#pragma once

#include <cstdint>

namespace titan::tracer {

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

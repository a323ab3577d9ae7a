// A process that a dumped one started, in words: as a dump tells of it, and as a report shows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace titan::analyzer {

struct DumpedChild {
    int32_t pid = 0;
    std::string name;
    char state = '?';          // as in /proc
    std::string wait_channel;  // the kernel function that it waits in
    uint64_t cpu_ns = 0;
    std::vector<std::string> frames;  // of its main thread in Python, innermost first
    int64_t ended_ns = 0;             // 0: it lives
    int32_t wait_status = -1;         // as wait() gives it, -1 unknown
};

}  // namespace titan::analyzer

// Unfinished calls of one process, and which are at the head of their stream: only those wait for other ranks, the rest
// wait behind them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "run.h"

namespace titan::analyzer {

enum class Progress : uint8_t {
    kDone,
    kUnfinished,
    kUnlaunched,  // inside a group that is not ended
    kUnknown,     // handed to the GPU, nobody watched
    kNone,        // runs on no stream
};

// Calls that run on a stream together: one call, or the calls of one group.
struct StreamHead {
    uint64_t stream = 0;
    uint32_t group = 0;
    std::vector<uint32_t> entries;
};

struct StreamOrder {
    std::vector<Progress> progress;  // index: entry
    std::vector<StreamHead> heads;
    std::unordered_map<uint32_t, uint32_t> behind;  // entry -> head that it queues behind
    bool inferred = false;                          // an entry of unknown progress was taken for unfinished
};

// Index: entry. Judged by this process alone.
std::vector<Progress> local_progress(const Process& process);

// `progress`: index: entry; judged by all processes (can_end.h).
StreamOrder order_streams(const Process& process, std::vector<Progress> progress);

}  // namespace titan::analyzer

// Drops the full entries that no verdict can need.
#pragma once

#include <cstddef>

#include "run.h"

namespace titan::analyzer {

struct CondenseLimits {
    size_t newest = 256;           // calls of the process
    size_t newest_of_member = 16;  // key: communicator
    size_t newest_of_pair = 4;     // per communicator, peer and direction
    size_t newest_of_stream = 2;   // and the newest one that finished: only then can the next one have begun to wait
    size_t unfinished = 8192;      // half of them the oldest, half the newest
    size_t unwatched_of_member = 512;  // handed to the GPU, and nobody saw whether they are done
    size_t captured = 1024;
    size_t failed = 64;
    size_t following = 64;  // after each unfinished call
};

// Keeps the full entries of the calls above, and all that threads and channels point to. Once: a condensed process
// stays as it is. Everything else lives on in Process::history, where matching and predictions look.
void condense(Process& process, const CondenseLimits& limits = {});

}  // namespace titan::analyzer

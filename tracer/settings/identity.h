// Identity of this process: rank, run and attempt as its launcher gave them, and what tells it apart from every other
// process.
#pragma once

#include <cstdint>

#include "config.h"

namespace titan::tracer {

struct Identity {
    int32_t rank;        // -1 unknown
    int32_t world_size;  // -1 unknown
    int32_t local_rank;  // -1 unknown
    int32_t attempt;     // restarts of the job so far
    char run[128];       // one path component: [A-Za-z0-9._-], never empty, never starting with a dot
    char host[64];
    char boot_id[40];
    char executable[128];  // the end of its path when it is long
    int32_t pid;
    int32_t uid;
    uint64_t pid_start_ticks;
    uint64_t pid_namespace;
};

// Does a launcher say that this process is one of the job's ranks?
bool environment_names_rank();

void read_identity(const Config& config, Identity& identity);

}  // namespace titan::tracer

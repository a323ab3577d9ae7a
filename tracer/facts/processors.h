// Reads from the system whether a process gets the processors that it asks for: some twenty small files, only when it
// dumps. signal-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/text.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

struct ProcessorUse {
    uint32_t online;      // processors of the host, 0 unknown
    uint32_t allowed;     // processors that the process may run on, 0 unknown
    uint32_t quota_cent;  // hundredths of a processor that its cgroups leave it, 0 no limit known
    bool has_load;
    uint32_t load_cent[3];  // load averages of the host over 1, 5 and 15 minutes, in hundredths
    uint32_t threads;       // number of threads in the sums below: the main thread and those that call NCCL
    uint64_t run_ns;        // time on a processor, since each thread began
    uint64_t run_delay_ns;  // ready to run, and without a processor
};

// `pid` 0: this process. `threads`: rows of the ring's table.
ProcessorUse read_processors(pid_t pid, std::span<const format::ThreadRecord> threads);

// The smallest quota of a group and its ancestors in one cgroup file system; 0 none. `path` is the group's, "/a/b".
uint32_t least_quota_cent(const char* mount, const char* path);

// ,"processors":{...}; nothing where nothing is known.
void write_processors(TextWriter& json, const ProcessorUse& use);

}  // namespace titan::tracer

// What /proc/PID/stat tells: pids are reused, so a process is a pid and the moment it started. signal-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace titan::tracer {

struct ProcessStat {
    char state;            // R, S, D, T, t, Z, X
    uint64_t start_ticks;  // clock ticks since boot when it started
};

// False: there is no such process.
bool read_process_stat(pid_t pid, ProcessStat& stat);

}  // namespace titan::tracer

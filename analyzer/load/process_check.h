// Is the process of a ring still there? A pid alone says nothing: it is reused, and it belongs to a namespace.
#pragma once

#include <string>
#include <string_view>

#include "formats/ring_clock.h"
#include "formats/ring_layout.h"
#include "run.h"

namespace titan::analyzer {

enum class ProcessPresence {
    kUnknown,  // another machine, or a namespace that we cannot look into
    kAlive,
    kGone,
};

// What keeps a process from running, by the state of its main thread and the kernel's function that it waits in.
Halt halt_of(char state, std::string_view wait_channel);
Halt halt_of_process(const format::RingHeader& header);  // of one that lives
// By its /proc/PID/cgroup and the control groups below `root`: kernels from 6.1 on show a frozen process as what it was before.
bool is_frozen(std::string_view groups, const std::string& root);

// Of a process that is gone, by what it wrote at its end.
Liveness dead_how(const format::RingHeader& header);

// The namespace that this process' pids belong to; 0 unknown.
uint64_t own_pid_namespace();

ProcessPresence check_process(const format::RingHeader& header, const format::RingClock& clock);

}  // namespace titan::analyzer

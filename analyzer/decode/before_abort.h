// What a process was before it ended, of a dump and of what came later.
//
// A watchdog that ends a hang, as PyTorch's does, aborts communicators: every wait returns, and the program's threads
// run on. Only a dump from before the abort shows where they hung.
#pragma once

#include <cstdint>

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// When the process first aborted a communicator that had an unfinished call; 0 when it never did.
int64_t first_abort_ns(const Process& process);

// The earlier of two such times.
int64_t earlier_abort_ns(int64_t one_ns, int64_t other_ns);

// Since when what the process did is aftermath of an abort, its own or a peer's, whose abort may end the process's wait
// before its own does; 0 when none of it is. `first_in_job_ns`: of all processes, 0 when that is not known.
int64_t aftermath_since_ns(const Process& process, int64_t first_in_job_ns);

// True if `dumped` shows the process of `later` before that abort.
bool is_before_abort(const Process& dumped, const Process& later);

// The last time before `until_ns` at which the process made a call, or at which one of its calls returned or ended.
// Possibly later, never earlier, when the ring has lost entries.
int64_t still_since_ns(const OpenedSource& opened, int64_t until_ns);

// Turns `dumped`, whose process did nothing more but leave, into the process at its end, which `later` tells.
void hold_until_end(Process& dumped, const Process& later);

// Turns `dumped`, whose process did nothing more before its abort, into the process at the moment of the abort. Its end
// is taken from `later`.
void hold_until_abort(Process& dumped, const Process& later, int64_t abort_ns);

}  // namespace titan::analyzer

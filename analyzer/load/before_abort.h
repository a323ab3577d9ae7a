// A watchdog that ends a hang, as PyTorch's does, aborts communicators: every wait returns, and the threads of the program run on.
// Where they hung is in a dump that was made before that.
#pragma once

#include <cstdint>

#include "load.h"

namespace titan::analyzer {

// When the process first aborted a communicator with an unfinished call, 0 never.
int64_t first_abort_ns(const Process& process);

// What it is in `dumped` it was before that abort; also where it has been held until then.
bool is_before_abort(const Process& dumped, const Process& later);

// Since when the process had called nothing until then, and nothing that it had called returned or ended. Later than any time where
// that cannot be told.
int64_t still_since_ns(const OpenedSource& opened, int64_t until_ns);

// `dumped` is the process that stood still from then until `later` shows its abort: it becomes what it was at the abort, and
// what is known of its end.
void hold_until_abort(Process& dumped, const Process& later, int64_t abort_ns);

}  // namespace titan::analyzer

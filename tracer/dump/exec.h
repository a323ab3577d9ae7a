// exec: the process lives on, and nothing of us in it. No death.
#pragma once

#include "job.h"

namespace titan::tracer {

// Of a process that lives: its memory is another program's, although its end was not told. Looks only at one that is
// silent. cold.
bool was_replaced(const JobProcess& process);

}  // namespace titan::tracer

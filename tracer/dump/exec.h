// exec: the process lives on, and nothing of us in it. No death.
#pragma once

#include "job.h"

namespace titan::tracer {

// True if a process lives, but its memory belongs to another program now: it called exec without telling us. Looks only
// at silent processes. cold.
bool was_replaced(const JobProcess& process);

}  // namespace titan::tracer

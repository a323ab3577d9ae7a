// What of a rank or a host is slow, as its readings tell.
#pragma once

#include "cause_search.h"

namespace titan::analyzer {

// Classifies a slow GPU, a slow rank host or a slow host by its readings, and adds these to the evidence.
CauseClass class_of_gpu(const CauseSearch& search, const Process& process, SlowCause& cause);
CauseClass class_of_host(const CauseSearch& search, const Process& process, bool whole_host, SlowCause& cause);

}  // namespace titan::analyzer

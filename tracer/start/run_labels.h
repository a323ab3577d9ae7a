// Labels that the tracer itself gives a run when it begins: those of TITANTRACE_LABELS, and the commit of the program.
#pragma once

#include "session.h"

namespace titan::tracer {

// Beside what lies below `directory` and above. cold.
void label_run(Session& session, const char* directory);

}  // namespace titan::tracer

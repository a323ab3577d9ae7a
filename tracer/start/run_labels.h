// Labels that the tracer itself gives a run when it begins: those of TITANTRACE_LABELS, and the commit of the program.
#pragma once

#include "session.h"

namespace titan::tracer {

// Sets the labels of TITANTRACE_LABELS. cold.
void label_run(Session& session);

// That of the repository that `directory` lies in, unless somebody has told another. It may lie on a file system that
// does not answer: for a thread that nobody waits for. cold, any-thread.
void label_commit(Session& session, const char* directory);

}  // namespace titan::tracer

// What a process was told by variables, and the versions that it found.
#pragma once

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// Fills Process::config; its other texts must be there.
void decode_config(const OpenedSource& opened, Process& process);

}  // namespace titan::analyzer

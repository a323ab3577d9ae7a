// What a process was told by variables, the versions that it found, and the processes that it started, as its dump
// says.
#pragma once

#include "open_source.h"
#include "run.h"

namespace titan::analyzer {

// Fills Process::config; its other texts must be there.
void decode_config(const OpenedSource& opened, Process& process);
// Fills Process::children and out_of_memory_kills; likewise.
void decode_children(const OpenedSource& opened, Process& process);

}  // namespace titan::analyzer

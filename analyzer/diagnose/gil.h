// Who holds the GIL of a process, as its stacks tell.
#pragma once

#include "run.h"
#include "sentence.h"

namespace titan::analyzer {

// The thread that held the GIL all the while that the stacks were taken, if that keeps other Python threads from
// running; else null.
const ThreadPosition* gil_holder(const Process& process);

// "thread 4711 (worker) of rank 0 holds the GIL, in cudaEventDestroy: its 2 other Python threads cannot run".
Sentence gil_fact(const Process& process, const ThreadPosition& holder);

}  // namespace titan::analyzer

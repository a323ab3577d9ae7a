// Finds the GPU work that a thread inside a synchronisation waits for.
#pragma once

#include <string>

#include "queue_ahead.h"

namespace titan::analyzer {

// The work that the call waits for, as far as streams and events tell; empty for calls that wait for no work of the
// GPU.
Ahead awaited_by(const Process& process, const ThreadState& thread, const QueueReader& queues);
// "all_reduce #48 on world", "kernel spin", "one of 3 pieces of work, the oldest kernel gemm"; empty where nothing
// tells.
std::string awaited_text(const Run& run, const Process& process, const ThreadState& thread, const QueueReader& queues);

}  // namespace titan::analyzer

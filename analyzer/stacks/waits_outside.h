// Waits for other ranks that do not go through NCCL: Gloo, c10d's store, MPI. No call of them is recorded; stacks show
// them.
#pragma once

#include <string_view>

#include "run.h"

namespace titan::analyzer {

// "Gloo", "the store", "MPI": what the thread waits in; empty where its stack shows no such wait.
std::string_view wait_outside_nccl(const Process& process, const ThreadPosition& position);

// The thread waits for another process: in one of those waits, or for what comes over a socket.
bool waits_for_an_answer(const Process& process, const ThreadPosition& position);

}  // namespace titan::analyzer

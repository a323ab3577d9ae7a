// Calls that were captured into CUDA graphs which nobody launched.
#pragma once

#include <cstdint>

#include "run.h"
#include "wait_graph.h"

namespace titan::analyzer {

// The member's own capture of the call that the others run: the same call on the same communicator, captured after
// everything that the member ran there, into a graph that it never launched. Null where there is none.
const Entry* find_capture(const Run& run, const WaitNode& node, const Absence& absence);
// The same where the member went on to its next call: a capture of `like` that lies behind its call before `sequence`.
const Entry* find_capture(const Run& run, MemberRef ref, const Entry& like, uint64_t sequence);

}  // namespace titan::analyzer

// Records a communicator after its creation. cold.
#pragma once

#include "thread_state.h"

namespace titan::tracer {

// The group that made them has ended with `result`: NCCL has handed the communicators out.
void settle_pending_creates(Thread& thread, int result);

// A communicator is usable: starts whatever starts with the first one.
void on_member_ready(Session& session, Communicator& communicator);

}  // namespace titan::tracer

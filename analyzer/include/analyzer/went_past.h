// Whether a rank is missing because it left a call out, or because it has not come to it yet.
#pragma once

#include <vector>

#include "analyzer/run.h"
#include "analyzer/stream_order.h"
#include "analyzer/wait_graph.h"

namespace titan::analyzer {

// Did the absent member make calls, on the thread that makes those of this communicator, that a waiter made only after the
// one it waits in, and that do not merely queue behind that? Then it passed the place where the missing call belongs.
// `orders`: by process.
bool went_past(const Run& run, const std::vector<StreamOrder>& orders, MemberRef absent, const WaitNode& node);

}  // namespace titan::analyzer

// ncclGroupStart / ncclGroupEnd: what a thread has called and not yet launched.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "plan.h"

namespace simgpu {

// Creation of a communicator: may block for peers, so each runs on a thread of its own when there are several.
struct InitJob {
    CoreRef core;    // the new one; null for a split without colour
    CoreRef parent;  // jobs of one parent run one after another
    std::function<ncclResult_t()> run;
    std::function<void(ncclResult_t)> done;  // publishes or withdraws the handle
};

// A call outside of any group is a group of its own.
ncclResult_t group_begin();
ncclResult_t group_end();
ncclResult_t group_simulate_end(float* estimated_us);

int group_depth();  // of this thread

// Inside of a group only.
Plan& group_plan(const CoreRef& core, CUstream stream, OpKind kind);
void group_add(InitJob job);
ncclResult_t group_error(ncclResult_t error);  // remembers it: nothing of the group will be launched

// begin, body, end; the body's error wins.
template <typename Body>
ncclResult_t grouped(Body body) {
    group_begin();
    const ncclResult_t inner = group_error(body());
    const ncclResult_t outer = group_end();
    return inner != ncclSuccess ? inner : outer;
}

}  // namespace simgpu

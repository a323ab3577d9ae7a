// When NCCL tells its profiler plugin what: calls of the API, launches, operations, what the proxy thread watches.
#pragma once

#include <memory>

#include "driver_table.h"
#include "proxy.h"
#include "vendor.h"

namespace simgpu {

struct Core;
struct Plan;

// What an operation carries from its call to its launch.
struct TaskProfile {
    int mask = 0;
    void* group_api = nullptr;
    void* api = nullptr;
    void* event = nullptr;
    std::shared_ptr<OpProgress> progress;  // none: nobody watches
};

struct TaskCall {
    bool is_p2p;
    const char* func;
    size_t count;
    ncclDataType_t type;
    int root;
    CUstream stream;
    int group_depth;
};

// On the thread that calls the API.
void profile_group_start();
void profile_group_end();  // before anything is launched
void profile_group_is_over();
TaskProfile profile_call(const Core& core, const TaskCall& call);

// Around a launch. Operations that are captured with something for the proxy thread to watch are announced anew by each
// replay, on the thread that carries it out; others by their launch.
void profile_launch(Plan& plan, CUstream stream, bool begins);
void profile_make_progress(Plan& plan);
bool profile_at_replay(const Plan& plan);
void profile_operations(Plan& plan);

void profile_comm_opened(Core& core);
void profile_comm_closed(Core& core);

}  // namespace simgpu

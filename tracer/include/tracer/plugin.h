// Events of NCCL's profiler plugin interface, the same for all versions: interpose/plugin/plugin.cpp translates into
// these.
//
// The interface sees every NCCL copy, also one that is statically linked or loaded so that no wrapper stands in front
// of it. A call that a wrapper has recorded is not recorded again: it is only given its channels. A call that no
// wrapper saw becomes an entry flagged kFromPlugin.
//
// Handles are what NCCL carries from one callback to the next. They are numbers (what, which process, which ring
// ticket), checked at every use: NCCL may hand in stale ones, ones of another process, or none. 0 is "nothing to
// follow".
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::tracer {

using PluginHandle = uint64_t;

// A communicator as NCCL describes it at init; older versions say nothing.
struct PluginComm {
    uint64_t hash = 0;  // equal on all members, 0 unknown
    const char* name = nullptr;
    int size = -1;
    int rank = -1;
    int* mask = nullptr;    // NCCL's, one per copy, for all of its communicators
    int calls_mask = 0;     // its bits for: tell of calls
    int progress_mask = 0;  // ... and of channels and proxies
};

struct PluginCall {
    format::OpKind kind{};
    uint16_t api = 0;
    PluginHandle parent = 0;
    const void* send = nullptr;
    const void* receive = nullptr;
    size_t count = 0;
    int datatype = 255;
    int peer = -1;  // root or peer, where told
    const void* stream = nullptr;
    bool captured = false;
    uint16_t channels = 0;
    format::Algorithm algorithm{};
    format::Protocol protocol{};
    // The communicator, in versions where each event names it.
    uint64_t hash = 0;
    int rank = -1;
    const char* comm_name = nullptr;
};

struct PluginProxy {
    PluginHandle parent = 0;
    int pid = 0;  // process that `parent` belongs to
    uint16_t channel = 0;
    int peer = -1;
    uint32_t steps = 0;
    bool is_send = false;
};

// A communicator comes to life. Sets *mask. 0 when nothing is recorded. Starts a session if need be. cold.
PluginHandle plugin_comm_opened(const PluginComm& comm);
void plugin_comm_closed(PluginHandle comm);  // cold

// The program's own calls, on its thread (versions that tell). `depth`: nesting of NCCL's groups, 1 for a call alone.
PluginHandle plugin_group_entered(PluginHandle comm, int depth, uint16_t group_end_api);
PluginHandle plugin_call_entered(PluginHandle comm, const PluginCall& call);
// NCCL has handed one call to the device. Any thread, also one that may not call CUDA.
PluginHandle plugin_call_launched(PluginHandle comm, const PluginCall& call);

// NCCL's proxy thread: hot.
PluginHandle plugin_kernel_started(PluginHandle parent, uint16_t channel, uint64_t device_ns);
PluginHandle plugin_proxy_started(const PluginProxy& proxy);
PluginHandle plugin_step_started(PluginHandle proxy, int step);

// ncclProfilerEventState_t; `value` is the state's argument, where it has one.
void plugin_state(PluginHandle handle, int state, uint64_t value);
void plugin_stopped(PluginHandle handle);

}  // namespace titan::tracer

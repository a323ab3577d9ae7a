// The loaded profiler plugin, whatever its version: how NCCL finds it, and one call for each of its functions.
//
// Any thread. Without a plugin everything here does nothing.
#pragma once

#include "comm.h"
#include "interpose/plugin/plugin_abi.h"

namespace simgpu {

namespace abi = titan::interpose::plugin_abi;

// One event in the terms of the newest version; older ones get what they know of it.
struct ProfilerEvent {
    uint64_t type = 0;
    void* parent = nullptr;
    void* parent_group = nullptr;
    int rank = 0;
    const char* func = nullptr;
    size_t count = 0;
    ncclDataType_t datatype = ncclInt8;
    int root = 0;  // or peer
    const void* send = nullptr;
    void* recv = nullptr;
    CUstream stream = nullptr;
    bool captured = false;
    int depth = 0;
    uint64_t sequence = 0;
    uint8_t channels = 0;
    uint8_t channel = 0;
    int steps = 0;  // or the step
    int chunk_bytes = 0;
    bool is_send = false;
    uint64_t timer = 0;
};

struct ProfilerStateArgs {
    size_t bytes = 0;
    int appended = 0;
    uint64_t timer = 0;
};

// A communicator comes and goes: the first one loads the plugin, the last one unloads it.
void plugin_open(Core& core);
void plugin_close(Core& core);

bool plugin_loaded();
bool plugin_sees_api();  // the emulated NCCL has events for calls of the API: 2.28 and later
int plugin_mask();       // as the plugin wants it at this moment

void plugin_start(const Core& core, void** handle, const ProfilerEvent& event);
void plugin_stop(void* handle);
void plugin_record(void* handle, abi::State state, const ProfilerStateArgs& args = {});

const char* datatype_word(ncclDataType_t type);

}  // namespace simgpu

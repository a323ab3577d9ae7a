// The communicators that NCCL's profiler plugin interface has told of, and how each is joined to the tracer's own.
#pragma once

#include <atomic>
#include <cstdint>

#include "session.h"
#include "thread_state.h"
#include "tracer/plugin.h"

namespace titan::tracer {

// 4 bits what, 12 bits whose (of the process' id), 48 bits which.
enum class HandleKind : uint8_t { kNone, kComm, kCall, kLaunch, kGroup, kKernel, kProxy, kStep };

inline constexpr unsigned kHandleValueBits = 48;
inline constexpr uint64_t kHandleValueMask = (uint64_t{1} << kHandleValueBits) - 1;

constexpr PluginHandle make_handle(HandleKind kind, const Session& session, uint64_t value) {
    return static_cast<uint64_t>(kind) << 60 |
           (static_cast<uint64_t>(session.identity.pid) & 0xFFF) << kHandleValueBits | (value & kHandleValueMask);
}

// The kind of a handle of this session, kNone for any other.
inline HandleKind kind_of(PluginHandle handle, const Session& session) {
    const bool ours = (handle >> kHandleValueBits & 0xFFF) == (static_cast<uint64_t>(session.identity.pid) & 0xFFF);
    return ours ? static_cast<HandleKind>(handle >> 60) : HandleKind::kNone;
}
constexpr uint64_t value_of(PluginHandle handle) { return handle & kHandleValueMask; }

struct PluginContext {
    std::atomic<uint64_t> generation;  // odd while in use
    std::atomic<Session*> session;
    std::atomic<Communicator*> communicator;  // null until it is known which one it is
    std::atomic<bool> own;                    // made by us: no call of the program came through a wrapper
    uint32_t name;                            // string id
    PluginComm facts;
};

// Null for a handle that is stale, foreign or none. hot.
PluginContext* context_of(PluginHandle handle, const Session& session);

// This communicator is the one that a wrapper has recorded. cold.
void join_context(Session& session, PluginContext& context, Communicator& communicator);

// Is some context joined to it? cold.
bool is_joined(const Session& session, const Communicator& communicator);

// Could this be the communicator of `context`, by what both know?
bool may_be(const PluginContext& context, const format::CommunicatorRecord& record);
// NCCL is making it, or has made it and not ended it.
bool is_living(const format::CommunicatorRecord& record);

// A communicator of whose calls no wrapper sees anything: made, unless the context has one. Null without room. cold.
Communicator* own_communicator(Session& session, PluginContext& context, const PluginCall& call);

// The names that contexts hold, also old ones. any-thread.
void each_context_name(void (*visit)(void* argument, uint32_t name), void* argument);

// The handle that Communicators::find() knows it by.
const void* key_of(const PluginContext& context);

// Shared by plugin_calls.cpp and plugin_channels.cpp, which handles the states and the ends of all kinds of events.
//
// Values of ncclProfilerEventState_t; they have not changed since the first version.
inline constexpr int kProxySendDone = 3;
inline constexpr int kProxyRecvDone = 7;
inline constexpr int kStepSendGpuWait = 8;
inline constexpr int kStepSendWait = 9;
inline constexpr int kStepRecvWait = 10;
inline constexpr int kStepRecvFlushWait = 11;
inline constexpr int kStepRecvGpuWait = 12;
inline constexpr int kStepSendPeerWait = 20;
inline constexpr int kKernelChannelStops = 22;
inline constexpr int kGroupEndStarts = 24;

void plugin_group_state(PluginHandle group, int state);
void plugin_group_stopped(PluginHandle group);

}  // namespace titan::tracer

// Shared by plugin_calls.cpp and plugin_channels.cpp, which handles the states and the ends of all kinds of events.
#pragma once

#include "tracer/plugin.h"

namespace titan::tracer {

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

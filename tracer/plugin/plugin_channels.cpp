// Reports of NCCL's proxy threads about single channels: a channel's kernel, and the steps that a proxy makes for it.
// hot.

#include "base/clock.h"
#include "plugin_contexts.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::ChannelEntry;
using format::ChannelRole;
using format::ChannelState;
using format::CollectiveEntry;

// Steps of one proxy that NCCL has under way at a time (NCCL_STEPS).
constexpr uint32_t kStepsInFlight = 8;
constexpr unsigned kStepBits = 8;
constexpr uint32_t kFollowed = 4096;  // no fewer than slots for channels

// A proxy waits for whatever its oldest unfinished step waits for; later steps wait for their turn. Written by the
// proxy's own thread.
struct Steps {
    std::atomic<uint64_t> states;  // one byte per step under way: ChannelState
    std::atomic<uint32_t> oldest;
    std::atomic<uint32_t> under_way;
};
constinit Steps followed[kFollowed]{};

struct StepState {
    int state;
    ChannelState meaning;
};
// A receiver cannot tell a slow peer from a slow network: it waits for the peer's data.
constexpr StepState kStepStates[] = {
    {kStepSendGpuWait, ChannelState::kWaitsForGpu},       {kStepSendPeerWait, ChannelState::kWaitsForPeer},
    {kStepSendWait, ChannelState::kWaitsForNetwork},      {kStepRecvWait, ChannelState::kWaitsForPeer},
    {kStepRecvFlushWait, ChannelState::kWaitsForNetwork}, {kStepRecvGpuWait, ChannelState::kWaitsForGpu},
};

Steps& steps_of(uint64_t ticket) { return followed[ticket % kFollowed]; }

ChannelEntry* channel_of(Session& session, uint64_t ticket) {
    ChannelEntry* const entry = session.channels.find(ticket);
    if (entry == nullptr) {
        count_loss(session, format::Loss::kChannelsDropped);
    }
    return entry;
}

void set_state(ChannelEntry& entry, ChannelState state) {
    store_field(entry.updated_ticks, now_ticks());
    store_field(entry.state, state);
}

struct NewChannel {
    uint64_t collective = 0;
    uint64_t device_ns = 0;
    uint32_t steps = 0;
    int32_t peer = -1;
    uint16_t channel;
    ChannelRole role;
};

uint64_t add_channel(Session& session, const NewChannel& channel, uint64_t now) {
    const uint64_t ticket = session.channels.claim();
    ChannelEntry& entry = session.channels.begin(ticket);
    entry.collective = channel.collective;
    entry.started_ticks = entry.updated_ticks = now;
    entry.steps = channel.steps;
    entry.steps_done = 0;
    entry.peer = channel.peer;
    entry.channel = channel.channel;
    entry.role = channel.role;
    entry.state = ChannelState::kRunning;
    entry.device_started_ns = channel.device_ns;
    entry.device_finished_ns = 0;
    session.channels.publish(entry, ticket);
    return ticket;
}

// The entry of the collective that the channel works for; null when it is gone or was never known.
CollectiveEntry* collective_of(Session& session, uint64_t ticket_plus_one) {
    return ticket_plus_one != 0 ? session.collectives.find(ticket_plus_one - 1) : nullptr;
}

// An entry that a marker on its stream is awaited for gets its state from there.
bool advance(CollectiveEntry& entry, CallState from, CallState to) {
    const bool watched = load_field(entry.launch) != 0 && (from == CallState::kStarted || to == CallState::kStarted);
    return !watched && std::atomic_ref(entry.state).compare_exchange_strong(from, to);
}

void note_kernel_started(CollectiveEntry& entry, uint64_t now) {
    std::atomic_ref(entry.channels_started).fetch_add(1, std::memory_order_relaxed);
    uint64_t unknown = 0;
    std::atomic_ref(entry.gpu_started_ticks).compare_exchange_strong(unknown, now);
    advance(entry, CallState::kEnqueued, CallState::kStarted);
}

void note_kernel_finished(Session& session, CollectiveEntry& entry, uint64_t now) {
    const auto finished =
        static_cast<uint16_t>(std::atomic_ref(entry.channels_finished).fetch_add(1, std::memory_order_relaxed) + 1);
    const bool all = finished == load_field(entry.channels);
    if (!all || (!advance(entry, CallState::kStarted, CallState::kFinished) &&
                 !advance(entry, CallState::kEnqueued, CallState::kFinished))) {
        return;
    }
    store_field(entry.gpu_finished_ticks, now);
    if (format::is_collective(entry.kind) && entry.communicator != format::kNoIndex) {
        format::CommunicatorRecord& record = *session.communicators.at(entry.communicator).record;
        if (record.id == entry.communicator_id && load_field(record.finished) < entry.sequence + 1) {
            store_field(record.finished, entry.sequence + 1);
        }
    }
}

void stop_kernel(Session& session, uint64_t ticket) {
    ChannelEntry* const channel = channel_of(session, ticket);
    if (channel == nullptr || load_field(channel->state) == ChannelState::kDone) {
        return;
    }
    set_state(*channel, ChannelState::kDone);
    if (CollectiveEntry* const entry = collective_of(session, channel->collective); entry != nullptr) {
        note_kernel_finished(session, *entry, channel->updated_ticks);
    }
}

uint32_t byte_of(uint32_t step) { return step % kStepsInFlight * 8; }

void show_oldest(ChannelEntry& channel, const Steps& steps) {
    const uint32_t oldest = steps.oldest.load(std::memory_order_relaxed);
    const auto state =
        static_cast<ChannelState>(steps.states.load(std::memory_order_relaxed) >> byte_of(oldest) & 0xFF);
    set_state(channel, state != ChannelState::kNotStarted ? state : ChannelState::kRunning);
}

void set_step(Steps& steps, uint32_t step, ChannelState state) {
    const uint64_t others = steps.states.load(std::memory_order_relaxed) & ~(uint64_t{0xFF} << byte_of(step));
    steps.states.store(others | static_cast<uint64_t>(state) << byte_of(step), std::memory_order_relaxed);
}

void step_state(Session& session, uint64_t value, int state) {
    ChannelEntry* const channel = channel_of(session, value >> kStepBits);
    if (channel == nullptr) {
        return;
    }
    Steps& steps = steps_of(value >> kStepBits);
    for (const StepState& row : kStepStates) {
        if (row.state == state) {
            set_step(steps, static_cast<uint32_t>(value), row.meaning);
            show_oldest(*channel, steps);
        }
    }
}

void stop_step(Session& session, uint64_t value) {
    ChannelEntry* const channel = channel_of(session, value >> kStepBits);
    Steps& steps = steps_of(value >> kStepBits);
    const uint32_t under_way = steps.under_way.load(std::memory_order_relaxed);
    if (channel == nullptr || under_way == 0) {
        return;
    }
    const auto step = static_cast<uint32_t>(value);
    steps.under_way.store(under_way - 1, std::memory_order_relaxed);
    steps.oldest.store((step + 1) & 0xFF, std::memory_order_relaxed);
    set_step(steps, step, ChannelState::kNotStarted);
    store_field(channel->steps_done, channel->steps_done + 1);
    show_oldest(*channel, steps);
}

// Versions before v4 reported how many steps a proxy had finished, and single steps only on request.
void proxy_state(Session& session, uint64_t ticket, int state, uint64_t value) {
    if (state != kProxySendDone && state != kProxyRecvDone) {
        return;
    }
    if (ChannelEntry* const channel = channel_of(session, ticket); channel != nullptr) {
        store_field(channel->steps_done, static_cast<uint32_t>(value));
        store_field(channel->updated_ticks, now_ticks());
    }
}

}  // namespace

PluginHandle plugin_kernel_started(PluginHandle parent, uint16_t channel, uint64_t device_ns) {
    Session* const current = session();
    if (current == nullptr) {
        return 0;
    }
    const uint64_t now = now_ticks();
    const bool known = kind_of(parent, *current) == HandleKind::kLaunch;
    const uint64_t collective = known ? value_of(parent) + 1 : 0;
    const uint64_t ticket = add_channel(
        *current,
        {.collective = collective, .device_ns = device_ns, .channel = channel, .role = ChannelRole::kKernelChannel},
        now);
    if (CollectiveEntry* const entry = collective_of(*current, collective); entry != nullptr) {
        note_kernel_started(*entry, now);
    }
    return make_handle(HandleKind::kKernel, *current, ticket);
}

PluginHandle plugin_proxy_started(const PluginProxy& proxy) {
    Session* const current = session();
    if (current == nullptr) {
        return 0;
    }
    // A proxy may serve another process of the node: that one's handles mean nothing here.
    const bool known = proxy.pid == current->identity.pid && kind_of(proxy.parent, *current) == HandleKind::kLaunch;
    const uint64_t ticket = add_channel(*current,
                                        {.collective = known ? value_of(proxy.parent) + 1 : 0,
                                         .steps = proxy.steps,
                                         .peer = proxy.peer,
                                         .channel = proxy.channel,
                                         .role = proxy.is_send ? ChannelRole::kProxySend : ChannelRole::kProxyRecv},
                                        now_ticks());
    Steps& steps = steps_of(ticket);
    steps.states.store(0, std::memory_order_relaxed);
    steps.oldest.store(0, std::memory_order_relaxed);
    steps.under_way.store(0, std::memory_order_relaxed);
    return make_handle(HandleKind::kProxy, *current, ticket);
}

PluginHandle plugin_step_started(PluginHandle proxy, int step) {
    Session* const current = session();
    if (current == nullptr || kind_of(proxy, *current) != HandleKind::kProxy) {
        return 0;
    }
    const uint64_t ticket = value_of(proxy);
    Steps& steps = steps_of(ticket);
    const uint32_t under_way = steps.under_way.load(std::memory_order_relaxed);
    const uint32_t low = static_cast<uint32_t>(step) & ((1u << kStepBits) - 1);
    if (under_way == 0) {
        steps.oldest.store(low, std::memory_order_relaxed);
    }
    steps.under_way.store(under_way + 1, std::memory_order_relaxed);
    set_step(steps, low, ChannelState::kRunning);
    return make_handle(HandleKind::kStep, *current, ticket << kStepBits | low);
}

void plugin_state(PluginHandle handle, int state, uint64_t value) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    const uint64_t which = value_of(handle);
    switch (kind_of(handle, *current)) {
        case HandleKind::kGroup: plugin_group_state(handle, state); break;
        case HandleKind::kProxy: proxy_state(*current, which, state, value); break;
        case HandleKind::kStep: step_state(*current, which, state); break;
        case HandleKind::kKernel:
            if (ChannelEntry* const channel = state == kKernelChannelStops ? channel_of(*current, which) : nullptr;
                channel != nullptr) {
                store_field(channel->device_finished_ns, value);
            }
            break;
        default: break;
    }
}

void plugin_stopped(PluginHandle handle) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    const uint64_t which = value_of(handle);
    switch (kind_of(handle, *current)) {
        case HandleKind::kGroup: plugin_group_stopped(handle); break;
        case HandleKind::kKernel: stop_kernel(*current, which); break;
        case HandleKind::kStep: stop_step(*current, which); break;
        case HandleKind::kProxy:
            if (ChannelEntry* const channel = channel_of(*current, which); channel != nullptr) {
                set_state(*channel, ChannelState::kDone);
            }
            break;
        default: break;  // a call has been handed over: its channels tell the rest
    }
}

}  // namespace titan::tracer

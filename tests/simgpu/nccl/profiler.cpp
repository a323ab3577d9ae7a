#include "profiler.h"

#include "plan.h"
#include "profiler_plugin.h"
#include "reduce.h"

namespace simgpu {

namespace {

using abi::Type;

// What wants a kind of event: itself, or a child that needs its parent.
constexpr int kOfProxies = abi::kProxyOp | abi::kProxyStep | abi::kNetPlugin;
constexpr int kOfOperations = abi::kKernelCh | kOfProxies;
constexpr int kWantsColl = abi::kColl | kOfOperations;
constexpr int kWantsP2p = abi::kP2p | kOfOperations;
constexpr int kWantsGroup = abi::kGroup | kWantsColl | kWantsP2p;
constexpr int kWantsCollApi = abi::kCollApi | kWantsColl | abi::kCopyEngine;
constexpr int kWantsP2pApi = abi::kP2pApi | kWantsP2p;
constexpr int kWantsGroupApi = abi::kGroupApi | abi::kKernelLaunch | abi::kGroup | kWantsCollApi | kWantsP2pApi;

struct ApiState {
    int mask = 0;
    int depth = 0;
    enum { kReset, kStarted, kStopped } state = kReset;
    void* group = nullptr;
    void* coll = nullptr;
    void* p2p = nullptr;
};

ApiState& api() {
    thread_local ApiState state;
    return state;
}

bool is_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    driver_table()->cuStreamIsCapturing(stream, &status);
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void start_group_api(const Core& core, const TaskCall& call, bool captured) {
    ApiState& mine = api();
    mine.mask = plugin_mask();
    if ((mine.mask & kWantsGroupApi) && mine.depth == 0) {
        plugin_start(core, &mine.group, {.type = abi::kGroupApi, .captured = captured, .depth = call.group_depth});
        mine.depth = call.group_depth;
        mine.state = ApiState::kStarted;
    }
    if (mine.state == ApiState::kStarted) {
        mine.state = ApiState::kStopped;
        plugin_record(mine.group, abi::kGroupStartApiStop);
    }
}

int first_mask(const Plan& plan, const TaskProfile** task = nullptr) {
    const auto look = [&](const auto& operations) {
        for (const auto& op : operations) {
            if (op.profile.mask) {
                if (task) {
                    *task = &op.profile;
                }
                return op.profile.mask;
            }
        }
        return 0;
    };
    const int mask = look(plan.collectives);
    return mask ? mask : look(plan.transfers);
}

bool leaves_host(Core& core, int peer) {
    return core.segment->member(peer).host != core.segment->member(core.rank).host;
}

// The proxy thread's part of one operation: its kernel on each channel, and the network on both sides.
void watch(Core& core, const TaskProfile& task, int channels, int to, int from, std::vector<ProxyItem>& items) {
    for (int channel = 0; channel < channels; ++channel) {
        ProxyItem item{ProxyItem::kKernel, static_cast<uint8_t>(channel), 0, task.mask, task.event, task.progress};
        if (task.mask & abi::kKernelCh) {
            items.push_back(item);
        }
        if (!(task.mask & kOfProxies)) {
            continue;
        }
        for (const auto& [kind, peer] : {std::pair{ProxyItem::kSend, to}, {ProxyItem::kReceive, from}}) {
            if (peer >= 0 && leaves_host(core, peer)) {
                item.kind = kind;
                item.peer = peer;
                items.push_back(item);
            }
        }
    }
}

void start_collectives(Plan& plan, void* group, std::vector<ProxyItem>& items) {
    Core& core = *plan.core;
    for (CollectiveOp& op : plan.collectives) {
        TaskProfile& task = op.profile;
        std::atomic<uint64_t>& sequence = core.sequence[static_cast<size_t>(op.kind)];
        if (plugin_loaded() && (task.mask & kWantsColl)) {
            plugin_start(core, &task.event,
                         {.type = abi::kColl,
                          .parent = task.api,
                          .parent_group = group,
                          .rank = core.rank,
                          .func = op_word(op.kind),
                          .count = op.count,
                          .datatype = op.type,
                          .root = op.root,
                          .send = op.send,
                          .recv = op.recv,
                          .sequence = sequence,
                          .channels = kChannels});
        }
        const bool watched = (group || task.api) && (task.mask & abi::kKernelCh);
        if (!plan.captured || watched) {
            ++sequence;
        }
        if (task.progress) {
            const int next = (core.rank + 1) % core.ranks, previous = (core.rank + core.ranks - 1) % core.ranks;
            watch(core, task, kChannels, next, previous, items);
        }
    }
}

void start_transfers(Plan& plan, void* group, std::vector<ProxyItem>& items) {
    Core& core = *plan.core;
    for (TransferOp& op : plan.transfers) {
        TaskProfile& task = op.profile;
        if (plugin_loaded() && (task.mask & kWantsP2p)) {
            plugin_start(core, &task.event,
                         {.type = abi::kP2p,
                          .parent = task.api,
                          .parent_group = group,
                          .rank = core.rank,
                          .func = op.is_send ? "Send" : "Recv",
                          .count = op.count,
                          .datatype = op.type,
                          .root = op.peer,
                          .send = op.from,
                          .recv = op.to,
                          .channels = 1});
        }
        if (task.progress && op.peer != core.rank) {
            watch(core, task, 1, op.is_send ? op.peer : -1, op.is_send ? -1 : op.peer, items);
        }
    }
}

}  // namespace

void profile_group_start() {
    if (api().depth > 0) {
        ++api().depth;
    }
}

void profile_group_end() {
    ApiState& mine = api();
    if (mine.depth > 0) {
        --mine.depth;
    }
    if (mine.depth == 0 && mine.state == ApiState::kStopped) {
        mine.state = ApiState::kReset;
        plugin_record(mine.group, abi::kGroupEndApiStart);
    }
}

void profile_group_is_over() {
    ApiState& mine = api();
    if (mine.group && mine.depth == 0) {
        plugin_stop(mine.group);
        mine.group = nullptr;
    }
}

TaskProfile profile_call(const Core& core, const TaskCall& call) {
    if (!plugin_loaded()) {
        return {};
    }
    TaskProfile task;
    if (!plugin_sees_api()) {
        task.mask = plugin_mask();
        return task;
    }
    const bool captured = is_captured(call.stream);
    start_group_api(core, call, captured);
    ApiState& mine = api();
    const ProfilerEvent event{.type = call.is_p2p ? abi::kP2pApi : abi::kCollApi,
                              .parent = mine.group,
                              .func = call.func,
                              .count = call.count,
                              .datatype = call.type,
                              .root = call.root,
                              .stream = call.stream,
                              .captured = captured};
    void*& handle = call.is_p2p ? mine.p2p : mine.coll;
    if (mine.mask & (call.is_p2p ? kWantsP2pApi : kWantsCollApi)) {
        plugin_start(core, &handle, event);
    }
    task.mask = mine.mask;
    task.group_api = mine.group;
    task.api = handle;
    plugin_stop(handle);
    if (call.is_p2p) {
        mine.p2p = nullptr;  // but not `coll`: once the plugin wants less, NCCL stops an old event again
    }
    return task;
}

void profile_launch(Plan& plan, CUstream stream, bool begins) {
    if (!plugin_loaded()) {
        return;
    }
    if (!begins) {
        plugin_stop(plan.launch_event);
        return;
    }
    const TaskProfile* first = nullptr;
    if (first_mask(plan, &first) & abi::kKernelLaunch) {
        plugin_start(*plan.core, &plan.launch_event,
                     {.type = abi::kKernelLaunch, .parent = first->group_api, .stream = stream});
    }
}

void profile_make_progress(Plan& plan) {
    const auto make = [](TaskProfile& task, size_t bytes, size_t chunk) {
        if (task.mask & kOfOperations) {
            task.progress = std::make_shared<OpProgress>();
            task.progress->chunk_bytes = std::min(bytes, chunk);
            task.progress->steps = std::max(1, static_cast<int>((bytes + chunk - 1) / chunk));
        }
    };
    for (CollectiveOp& op : plan.collectives) {
        make(op.profile, contribution_bytes(op, plan.core->ranks), kSlotBytes);
    }
    for (TransferOp& op : plan.transfers) {
        make(op.profile, op.bytes, kMailboxBytes);
    }
}

bool profile_at_replay(const Plan& plan) {
    return plan.captured && (first_mask(plan) & (plan.core->nodes > 1 ? kOfOperations : int{abi::kKernelCh}));
}

void profile_operations(Plan& plan) {
    Core& core = *plan.core;
    void* group = nullptr;
    if (plugin_loaded() && (first_mask(plan) & kWantsGroup)) {
        plugin_start(core, &group, {.type = abi::kGroup});
    }
    std::vector<ProxyItem> items;
    start_collectives(plan, group, items);
    start_transfers(plan, group, items);
    if (!items.empty() && core.profiled) {
        std::lock_guard lock(core.lock);
        if (!core.proxy) {
            core.proxy = Proxy::start(core);
        }
        core.proxy->append(std::move(items));
    }
    for (const CollectiveOp& op : plan.collectives) {
        plugin_stop(op.profile.event);
    }
    for (const TransferOp& op : plan.transfers) {
        plugin_stop(op.profile.event);
    }
    plugin_stop(group);
}

void profile_comm_opened(Core& core) { plugin_open(core); }

void profile_comm_closed(Core& core) {
    std::unique_ptr<Proxy> proxy;
    {
        std::lock_guard lock(core.lock);
        proxy = std::move(core.proxy);
    }
    if (proxy && !core.abort) {
        proxy->finish();
    }
    proxy.reset();
    plugin_close(core);
}

}  // namespace simgpu

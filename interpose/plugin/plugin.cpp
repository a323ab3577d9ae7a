// NCCL's profiler plugin interface, served by this library: the symbols that NCCL looks up, one per version, and their
// translation into calls of the tracer. All versions share the handlers; their differences are rows of the table below.
//
// Every callback answers success: NCCL goes on with a plugin that failed to start, and calls it with no context.
#include <stdint.h>

#include "plugin_abi.h"
#include "plugin_words.h"
#include "tracer/plugin.h"

namespace titan::interpose {

namespace {

using namespace plugin_abi;
using tracer::PluginHandle;

constexpr int kNcclSuccess = 0;
constexpr const char* kName = "titantrace";
constexpr int kCalls = kColl | kP2p;
constexpr int kApiCalls = kCalls | kGroupApi | kCollApi | kP2pApi;
constexpr int kProxies = kProxyOp | kProxyStep;

// Differences between the versions: the layouts, and which events can be requested. X(version, table of functions,
// init, calls, progress)
#define TITAN_PLUGIN_VERSIONS(X)                             \
    X(1, PluginV1, init_v1, kCalls, kProxies)                \
    X(2, PluginV2, init_v1, kCalls, kProxies)                \
    X(3, PluginV3, init_v1, kCalls, kProxies | kKernelCh)    \
    X(4, PluginV4, init_v4, kCalls, kProxies | kKernelCh)    \
    X(5, PluginV5, init_v5, kApiCalls, kProxies | kKernelCh) \
    X(6, PluginV6, init_v5, kApiCalls, kProxies | kKernelCh)

PluginHandle handle_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* pointer_of(PluginHandle handle) { return reinterpret_cast<void*>(handle); }

// The fields that some versions have and others do not.
template <typename Body>
tracer::PluginCall common_fields(const PluginFunction& function, PluginHandle parent, const Body& body) {
    tracer::PluginCall call{.kind = function.kind, .api = static_cast<uint16_t>(function.api), .parent = parent};
    call.count = body.count;
    call.datatype = plugin_datatype(body.datatype);
    if constexpr (requires { body.commHash; }) {
        call.hash = body.commHash;
        call.comm_name = body.name;
    }
    if constexpr (requires { body.nChannels; }) {
        call.channels = body.nChannels;
    } else if constexpr (requires { body.nMaxChannels; }) {
        call.channels = body.nMaxChannels;
    }
    if constexpr (requires { body.algo; }) {
        call.algorithm = plugin_algorithm(body.algo);
        call.protocol = plugin_protocol(body.proto);
    }
    if constexpr (requires { body.stream; }) {
        call.stream = body.stream;
        call.captured = body.graphCaptured;
    }
    if constexpr (requires { body.root; }) {
        call.peer = format::class_of(function.kind) == format::OpClass::rooted ? body.root : -1;
    }
    if constexpr (requires { body.peer; }) {
        call.peer = body.peer;
        (function.kind == format::OpKind::kSend ? call.send : call.receive) = body.buff;
    }
    if constexpr (requires { body.sendBuff; }) {
        call.send = body.sendBuff;
        call.receive = body.recvBuff;
    }
    return call;
}

template <typename Descr, typename Body, typename Report>
PluginHandle report_call(const Descr& descriptor, const Body& body, Report report, PluginHandle comm) {
    const PluginFunction* const function = plugin_function(body.func);
    if (function == nullptr) {
        return 0;
    }
    tracer::PluginCall call = common_fields(*function, handle_of(descriptor.parentObj), body);
    call.rank = descriptor.rank;
    return report(comm, call);
}

PluginHandle start_proxy(PluginHandle parent, const ProxyOp& body) {
    return tracer::plugin_proxy_started({.parent = parent,
                                         .pid = body.pid,
                                         .channel = body.channelId,
                                         .peer = body.peer,
                                         .steps = static_cast<uint32_t>(body.nSteps > 0 ? body.nSteps : 0),
                                         .is_send = body.isSend != 0});
}

// Versions before v4 report no device time.
uint64_t device_ns(const KernelChV3&) { return 0; }
uint64_t device_ns(const KernelChV4& body) { return body.pTimer; }

// Calls of the API, v5 on.
template <typename Descr>
PluginHandle start_api(PluginHandle comm, const Descr& descriptor) {
    switch (descriptor.type) {
        case kCollApi: return report_call(descriptor, descriptor.collApi, tracer::plugin_call_entered, comm);
        case kP2pApi: return report_call(descriptor, descriptor.p2pApi, tracer::plugin_call_entered, comm);
        case kGroupApi:
            return tracer::plugin_group_entered(comm, descriptor.groupApi.groupDepth,
                                                static_cast<uint16_t>(Api::ncclGroupEnd));
        default: return 0;  // groups, control and network events, and what newer versions add
    }
}

template <typename Descr>
PluginHandle start(PluginHandle comm, const Descr& descriptor) {
    const PluginHandle parent = handle_of(descriptor.parentObj);
    switch (descriptor.type) {
        case kColl: return report_call(descriptor, descriptor.coll, tracer::plugin_call_launched, comm);
        case kP2p: return report_call(descriptor, descriptor.p2p, tracer::plugin_call_launched, comm);
        case kProxyOp: return start_proxy(parent, descriptor.proxyOp);
        case kProxyStep: return tracer::plugin_step_started(parent, descriptor.proxyStep.step);
        case kKernelCh:
            if constexpr (requires { descriptor.kernelCh; }) {
                return tracer::plugin_kernel_started(parent, descriptor.kernelCh.channelId,
                                                     device_ns(descriptor.kernelCh));
            }
            return 0;
        default: break;
    }
    if constexpr (requires { descriptor.collApi; }) {
        return start_api(comm, descriptor);
    }
    return 0;
}

template <typename Descr>
int start_event(void* context, void** handle, Descr* descriptor) {
    if (handle != nullptr && descriptor != nullptr) {
        *handle = pointer_of(start(handle_of(context), *descriptor));
    }
    return kNcclSuccess;
}

int stop_event(void* handle) {
    tracer::plugin_stopped(handle_of(handle));
    return kNcclSuccess;
}

constexpr int kLastProxyOpState = 7;

uint64_t value_of(int state, const StateArgsV1& arguments) {
    return state <= kLastProxyOpState && arguments.proxyOp.steps > 0 ? static_cast<uint64_t>(arguments.proxyOp.steps)
                                                                     : 0;
}
uint64_t value_of(int state, const StateArgsV4& arguments) {
    return state == kKernelChStop ? arguments.kernelCh.pTimer : 0;
}

template <typename Args>
int record_state(void* handle, int state, Args* arguments) {
    tracer::plugin_state(handle_of(handle), state, arguments != nullptr ? value_of(state, *arguments) : 0);
    return kNcclSuccess;
}

int close_comm(void* context) {
    tracer::plugin_comm_closed(handle_of(context));
    return kNcclSuccess;
}

// A plugin that does not start must clear the mask itself: NCCL would go on calling it.
template <int kVersion>
int open_comm(void** context, int* mask, tracer::PluginComm comm);

template <int kVersion>
int init_v1(void** context, int* mask) {
    return open_comm<kVersion>(context, mask, {});
}

template <int kVersion>
int init_v4(void** context, int* mask, const char* name, uint64_t hash, int, int size, int rank, Logger) {
    return open_comm<kVersion>(context, mask, {.hash = hash, .name = name, .size = size, .rank = rank});
}

template <int kVersion>
int init_v5(void** context, uint64_t hash, int* mask, const char* name, int, int size, int rank, Logger) {
    return open_comm<kVersion>(context, mask, {.hash = hash, .name = name, .size = size, .rank = rank});
}

template <int kVersion>
struct Version;
#define TITAN_VERSION(number, table, init_function, calls_mask, progress_mask) \
    template <>                                                                \
    struct Version<number> {                                                   \
        using Table = table;                                                   \
        static constexpr auto* kInit = &init_function<number>;                 \
        static constexpr int kCallsMask = calls_mask;                          \
        static constexpr int kProgressMask = progress_mask;                    \
    };
TITAN_PLUGIN_VERSIONS(TITAN_VERSION)
#undef TITAN_VERSION

template <int kVersion>
int open_comm(void** context, int* mask, tracer::PluginComm comm) {
    comm.mask = mask;
    comm.calls_mask = Version<kVersion>::kCallsMask;
    comm.progress_mask = Version<kVersion>::kProgressMask;
    const PluginHandle handle = mask != nullptr ? tracer::plugin_comm_opened(comm) : 0;
    if (context != nullptr) {
        *context = pointer_of(handle);
    }
    return kNcclSuccess;
}

template <int kVersion>
constexpr auto make_profiler() {
    using Table = typename Version<kVersion>::Table;
    return Table{kName,      Version<kVersion>::kInit,           start_event<typename Table::Descr>,
                 stop_event, record_state<typename Table::Args>, close_comm};
}

}  // namespace

}  // namespace titan::interpose

#define TITAN_SYMBOL(number, ...)                                                                   \
    extern "C" __attribute__((visibility("default"))) constinit const auto ncclProfiler_v##number = \
        titan::interpose::make_profiler<number>();
TITAN_PLUGIN_VERSIONS(TITAN_SYMBOL)

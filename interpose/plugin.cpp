// NCCL's profiler plugin interface, served by this library: the symbols that NCCL looks up, one per version, and the
// translation into what the tracer asks. All versions share the handlers; what differs is a row of the table below.
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

// What differs between the versions: the layouts, and which events there are to ask for.
//   X(version, descriptor, Coll, P2p, KernelCh, init, calls, progress)
#define TITAN_PLUGIN_VERSIONS(X)                                                             \
    X(1, NarrowDescriptor, CollV1, P2pV1, KernelChV3, InitV1, kCalls, kProxies)              \
    X(2, NarrowDescriptor, CollV2, P2pV2, KernelChV3, InitV1, kCalls, kProxies)              \
    X(3, NarrowDescriptor, CollV3, P2pV2, KernelChV3, InitV1, kCalls, kProxies | kKernelCh)  \
    X(4, NarrowDescriptor, CollV4, P2pV4, KernelChV4, InitV4, kCalls, kProxies | kKernelCh)  \
    X(5, WideDescriptor, CollV4, P2pV4, KernelChV4, InitV5, kApiCalls, kProxies | kKernelCh) \
    X(6, WideDescriptor, CollV4, P2pV4, KernelChV4, InitV5, kApiCalls, kProxies | kKernelCh)

PluginHandle handle_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* pointer_of(PluginHandle handle) { return reinterpret_cast<void*>(handle); }

template <typename Body>
const Body& body_of(const void* descriptor) {
    return *reinterpret_cast<const Body*>(static_cast<const char*>(descriptor) + offsetof(WideDescriptor, body));
}

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

template <typename Body, typename Tell>
PluginHandle tell_call(const NarrowDescriptor& head, Tell tell, PluginHandle comm) {
    const Body& body = body_of<Body>(&head);
    const PluginFunction* const function = plugin_function(body.func);
    if (function == nullptr) {
        return 0;
    }
    tracer::PluginCall call = common_fields(*function, handle_of(head.parent), body);
    call.rank = head.rank;
    return tell(comm, call);
}

PluginHandle start_proxy(const NarrowDescriptor& head) {
    const ProxyOp& body = body_of<ProxyOp>(&head);
    return tracer::plugin_proxy_started({.parent = handle_of(head.parent),
                                         .pid = body.pid,
                                         .channel = body.channelId,
                                         .peer = body.peer,
                                         .steps = static_cast<uint32_t>(body.nSteps > 0 ? body.nSteps : 0),
                                         .is_send = body.isSend != 0});
}

template <typename Body>
PluginHandle start_kernel(const NarrowDescriptor& head) {
    const Body& body = body_of<Body>(&head);
    uint64_t device_ns = 0;
    if constexpr (requires { body.pTimer; }) {
        device_ns = body.pTimer;
    }
    return tracer::plugin_kernel_started(handle_of(head.parent), body.channelId, device_ns);
}

// The heads differ in `type` alone, which the caller has read.
template <typename Coll, typename P2p, typename KernelCh>
PluginHandle start(PluginHandle comm, uint64_t type, const NarrowDescriptor& head) {
    switch (type) {
        case kColl: return tell_call<Coll>(head, tracer::plugin_call_launched, comm);
        case kP2p: return tell_call<P2p>(head, tracer::plugin_call_launched, comm);
        case kCollApi: return tell_call<CollApi>(head, tracer::plugin_call_entered, comm);
        case kP2pApi: return tell_call<P2pApi>(head, tracer::plugin_call_entered, comm);
        case kGroupApi:
            return tracer::plugin_group_entered(comm, body_of<GroupApi>(&head).groupDepth,
                                                static_cast<uint16_t>(Api::ncclGroupEnd));
        case kProxyOp: return start_proxy(head);
        case kProxyStep: return tracer::plugin_step_started(handle_of(head.parent), body_of<ProxyStep>(&head).step);
        case kKernelCh: return start_kernel<KernelCh>(head);
        default: return 0;  // groups, control and network events, and what newer versions add
    }
}

template <int kVersion>
struct Version;
#define TITAN_VERSION(number, descriptor, coll, p2p, kernel, init_type, calls_mask, progress_mask) \
    template <>                                                                                    \
    struct Version<number> {                                                                       \
        using Head = descriptor;                                                                   \
        using Coll = coll;                                                                         \
        using P2p = p2p;                                                                           \
        using KernelCh = kernel;                                                                   \
        using Init = init_type;                                                                    \
        static constexpr int kCallsMask = calls_mask;                                              \
        static constexpr int kProgressMask = progress_mask;                                        \
    };
TITAN_PLUGIN_VERSIONS(TITAN_VERSION)
#undef TITAN_VERSION

template <int kVersion>
int start_event(void* context, void** handle, void* descriptor) {
    using V = Version<kVersion>;
    if (handle == nullptr || descriptor == nullptr) {
        return kNcclSuccess;
    }
    const uint64_t type = static_cast<const typename V::Head*>(descriptor)->type;
    *handle = pointer_of(start<typename V::Coll, typename V::P2p, typename V::KernelCh>(
        handle_of(context), type, *static_cast<const NarrowDescriptor*>(descriptor)));
    return kNcclSuccess;
}

int stop_event(void* handle) {
    tracer::plugin_stopped(handle_of(handle));
    return kNcclSuccess;
}

template <int kVersion>
int record_state(void* handle, int state, void* arguments) {
    uint64_t value = 0;
    constexpr int kKernelChStop = 22;
    constexpr int kLastProxyOpState = 7;
    if (arguments != nullptr && kVersion >= 4 && state == kKernelChStop) {
        value = static_cast<const KernelChState*>(arguments)->pTimer;
    } else if (arguments != nullptr && kVersion < 4 && state <= kLastProxyOpState) {
        const int steps = static_cast<const ProxyOpState*>(arguments)->steps;
        value = static_cast<uint64_t>(steps > 0 ? steps : 0);
    }
    tracer::plugin_state(handle_of(handle), state, value);
    return kNcclSuccess;
}

int close_comm(void* context) {
    tracer::plugin_comm_closed(handle_of(context));
    return kNcclSuccess;
}

// A plugin that does not start must clear the mask itself: NCCL would go on calling it.
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
constexpr auto* init_of(InitV1*) {
    return &init_v1<kVersion>;
}
template <int kVersion>
constexpr auto* init_of(InitV4*) {
    return &init_v4<kVersion>;
}
template <int kVersion>
constexpr auto* init_of(InitV5*) {
    return &init_v5<kVersion>;
}

template <int kVersion>
constexpr Profiler<typename Version<kVersion>::Init> make_profiler() {
    using Init = typename Version<kVersion>::Init;
    return {kName,
            init_of<kVersion>(static_cast<Init*>(nullptr)),
            start_event<kVersion>,
            stop_event,
            record_state<kVersion>,
            close_comm};
}

}  // namespace

}  // namespace titan::interpose

#define TITAN_SYMBOL(number, ...)                                                                   \
    extern "C" __attribute__((visibility("default"))) constinit const auto ncclProfiler_v##number = \
        titan::interpose::make_profiler<number>();
using titan::interpose::plugin_abi::Profiler;
TITAN_PLUGIN_VERSIONS(TITAN_SYMBOL)

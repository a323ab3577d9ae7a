#include "fake_nccl.h"

#include <cstring>
#include <type_traits>

#include "plugin_abi.h"

namespace titan::test {

namespace abi = interpose::plugin_abi;

namespace {

// All versions' tables, but for the types of their parameters.
struct Plugin {
    const char* name;
    void* init;
    int (*startEvent)(void*, void**, const void*);
    int (*stopEvent)(void*);
    int (*recordEventState)(void*, int, void*);
    int (*finalize)(void*);
};

}  // namespace

}  // namespace titan::test

extern "C" {
extern const titan::test::Plugin ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5,
    ncclProfiler_v6;
}

namespace titan::test {

namespace {

const Plugin& plugin(int version) {
    const Plugin* const all[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                                 &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
    return *all[version - 1];
}

// Calls fill(descriptor) with the descriptor that the version has.
template <typename Fill>
void with_descriptor(int version, Fill fill) {
    const auto run = [&](auto descriptor) {
        memset(static_cast<void*>(&descriptor), 0, sizeof(descriptor));
        fill(descriptor);
    };
    switch (version) {
        case 1: return run(abi::DescrV1{});
        case 2: return run(abi::DescrV2{});
        case 3: return run(abi::DescrV3{});
        case 4: return run(abi::DescrV4{});
        case 5: return run(abi::DescrV5{});
        default: return run(abi::DescrV6{});
    }
}

template <typename Head>
void fill_head(Head& head, uint64_t type, void* parent) {
    head.type = static_cast<decltype(head.type)>(type);
    head.parentObj = parent;
}

template <typename Body>
void fill_words(Body& body, const FakeCall& call) {
    if constexpr (std::is_same_v<decltype(body.func), uint8_t>) {
        body.func = call.func_number;
        body.datatype = call.datatype_number;
    } else {
        body.func = call.func;
        body.datatype = call.datatype;
    }
    body.count = call.count;
    if constexpr (requires { body.nChannels; }) {
        body.nChannels = call.channels;
    } else if constexpr (requires { body.nMaxChannels; }) {
        body.nMaxChannels = call.channels;
    }
}

bool is_p2p(const FakeCall& call) { return strcmp(call.func, "Send") == 0 || strcmp(call.func, "Recv") == 0; }

}  // namespace

void* FakeNccl::start(void* context, const void* descriptor) {
    void* handle = nullptr;
    plugin(version_).startEvent(context, &handle, descriptor);
    return handle;
}

void* FakeNccl::open(uint64_t hash, int size, int rank) {
    void* context = nullptr;
    void* const init = plugin(version_).init;
    if (version_ < 4) {
        reinterpret_cast<abi::InitV1*>(init)(&context, &mask);
    } else if (version_ == 4) {
        reinterpret_cast<abi::InitV4*>(init)(&context, &mask, "named", hash, 1, size, rank, nullptr);
    } else {
        reinterpret_cast<abi::InitV5*>(init)(&context, hash, &mask, "named", 1, size, rank, nullptr);
    }
    return context;
}

void FakeNccl::close(void* context) { plugin(version_).finalize(context); }

void* FakeNccl::start_group(void* context, int depth) {
    abi::DescrV6 descriptor{};
    fill_head(descriptor, abi::kGroupApi, nullptr);
    descriptor.groupApi.groupDepth = depth;
    return start(context, &descriptor);
}

void* FakeNccl::enter(void* context, const FakeCall& call, void* parent) {
    abi::DescrV6 descriptor{};
    fill_head(descriptor, is_p2p(call) ? abi::kP2pApi : abi::kCollApi, parent);
    if (is_p2p(call)) {
        descriptor.p2pApi = {call.func, call.count, call.datatype, call.stream, call.captured};
    } else {
        descriptor.collApi = {call.func, call.count, call.datatype, call.root, call.stream, call.captured};
    }
    return start(context, &descriptor);
}

void* FakeNccl::launch(void* context, const FakeCall& call, void* parent, uint64_t hash, int rank) {
    void* handle = nullptr;
    with_descriptor(version_, [&](auto& descriptor) {
        fill_head(descriptor, is_p2p(call) ? abi::kP2p : abi::kColl, parent);
        descriptor.rank = rank;
        if (is_p2p(call)) {
            fill_words(descriptor.p2p, call);
            descriptor.p2p.buff = call.receive;
            descriptor.p2p.peer = call.root;
        } else {
            fill_words(descriptor.coll, call);
            descriptor.coll.sendBuff = call.send;
            descriptor.coll.recvBuff = call.receive;
            descriptor.coll.root = call.root;
        }
        if constexpr (requires { descriptor.coll.commHash; }) {
            (is_p2p(call) ? descriptor.p2p.commHash : descriptor.coll.commHash) = hash;
        }
        handle = start(context, &descriptor);
    });
    return handle;
}

void* FakeNccl::start_kernel(void* context, void* parent, uint8_t channel, uint64_t timer) {
    void* handle = nullptr;
    with_descriptor(version_, [&](auto& descriptor) {
        fill_head(descriptor, abi::kKernelCh, parent);
        if constexpr (requires { descriptor.kernelCh; }) {
            descriptor.kernelCh.channelId = channel;
        }
        if constexpr (requires { descriptor.kernelCh.pTimer; }) {
            descriptor.kernelCh.pTimer = timer;
        }
        handle = start(context, &descriptor);
    });
    return handle;
}

void* FakeNccl::start_proxy(void* context, void* parent, int pid, int peer, int steps, bool is_send) {
    void* handle = nullptr;
    with_descriptor(version_, [&](auto& descriptor) {
        fill_head(descriptor, abi::kProxyOp, parent);
        descriptor.proxyOp = {pid, 1, peer, steps, 1 << 20, is_send ? 1 : 0};
        handle = start(context, &descriptor);
    });
    return handle;
}

void* FakeNccl::start_step(void* context, void* parent, int step) {
    void* handle = nullptr;
    with_descriptor(version_, [&](auto& descriptor) {
        fill_head(descriptor, abi::kProxyStep, parent);
        descriptor.proxyStep.step = step;
        handle = start(context, &descriptor);
    });
    return handle;
}

void* FakeNccl::start_raw(void* context, uint64_t type) {
    void* handle = reinterpret_cast<void*>(0x1234);
    with_descriptor(version_, [&](auto& descriptor) {
        fill_head(descriptor, type, nullptr);
        handle = start(context, &descriptor);
    });
    return handle;
}

void FakeNccl::state(void* handle, int state, uint64_t timer) {
    abi::StateArgsV4 arguments{};
    arguments.kernelCh.pTimer = timer;
    plugin(version_).recordEventState(handle, state, state == abi::kGroupEndApiStart ? nullptr : &arguments);
}

void FakeNccl::proxy_state(void* handle, int state, int steps) {
    abi::StateArgsV1 arguments{};
    arguments.proxyOp.steps = steps;
    plugin(version_).recordEventState(handle, state, &arguments);
}

void FakeNccl::stop(void* handle) {
    if (handle != nullptr) {
        plugin(version_).stopEvent(handle);
    }
}

void* FakeNccl::call(void* context, const FakeCall& call, uint64_t hash, int rank) {
    void* const group = tells_api() ? start_group(context, 1) : nullptr;
    void* const entered = tells_api() ? enter(context, call, group) : nullptr;
    stop(entered);
    if (group != nullptr) {
        state(group, abi::kGroupEndApiStart);
    }
    void* const launched = launch(context, call, entered, hash, rank);
    stop(launched);
    stop(group);
    return launched;
}

}  // namespace titan::test

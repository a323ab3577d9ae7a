// The plugin as NCCL drives it, every version, against a real session of this process.
#include <doctest/doctest.h>
#include <unistd.h>

#include <thread>

#include "fake_nccl.h"
#include "fixture.h"
#include "plugin_abi.h"
#include "thread_state.h"

using namespace titan;
namespace abi = interpose::plugin_abi;
using format::CallState;
using format::ChannelState;
using format::OpKind;
using test::FakeCall;
using test::FakeNccl;

namespace {

constexpr int kVersions = 6;
constexpr int kProgressMask = abi::kProxyOp | abi::kProxyStep;

uint64_t calls() { return test::recording().collectives.head(); }

format::CollectiveEntry& entry_at(uint64_t ticket) {
    format::CollectiveEntry* const entry = test::recording().collectives.find(ticket);
    REQUIRE(entry != nullptr);
    return *entry;
}

format::ChannelEntry& newest_channel() {
    auto& channels = test::recording().channels;
    format::ChannelEntry* const entry = channels.find(channels.head() - 1);
    REQUIRE(entry != nullptr);
    return *entry;
}

struct Mode {
    explicit Mode(tracer::NcclPluginMode mode) : before(test::recording().config.nccl_plugin) {
        test::recording().config.nccl_plugin = mode;
    }
    ~Mode() { test::recording().config.nccl_plugin = before; }
    tracer::NcclPluginMode before;
};

// A communicator whose creation goes through a wrapper, with NCCL's plugin init inside.
struct Wrapped {
    FakeNccl& nccl;
    void* handle = nullptr;
    void* context = nullptr;

    Wrapped(FakeNccl& copy, int seed, uint64_t hash, int size, int rank) : nccl(copy) {
        unsigned char unique_id[128]{};
        unique_id[0] = static_cast<unsigned char>(seed);
        unique_id[1] = 0xEE;
        tracer::Call call;
        REQUIRE(enter_create(call, test::kAnyApi,
                             {.kind = OpKind::kCommInit, .unique_id = unique_id, .size = size, .rank = rank}));
        context = nccl.open(hash, size, rank);
        handle = test::new_handle();
        leave_create(call, &handle, 0);
    }
    ~Wrapped() {
        tracer::Call call;
        REQUIRE(enter_call(call, test::kAnyApi, {.kind = OpKind::kCommDestroy, .comm = handle}));
        nccl.close(context);
        leave_call(call, 0);
    }
    Wrapped(const Wrapped&) = delete;
    Wrapped& operator=(const Wrapped&) = delete;
};

// As the wrapper of ncclAllReduce does; `inside` is what NCCL does in it.
template <typename Inside>
uint64_t wrapped_call(const tracer::CallArgs& args, Inside inside) {
    tracer::Call call;
    REQUIRE(enter_call(call, test::kAnyApi, args));
    inside();
    leave_call(call, 0);
    return call.ticket;
}

}  // namespace

TEST_CASE("without a wrapper in front, every version's calls become entries, in their order") {
    for (int version = 1; version <= kVersions; ++version) {
        CAPTURE(version);
        FakeNccl nccl(version);
        const uint64_t hash = 0x1000 + static_cast<uint64_t>(version);
        void* const context = nccl.open(hash, 8, 3);
        REQUIRE(context != nullptr);
        CHECK((nccl.mask & (abi::kColl | abi::kP2p)) == (abi::kColl | abi::kP2p));
        CHECK((nccl.mask & (abi::kKernelCh | kProgressMask)) == 0);
        int buffer = 0;
        const uint64_t first = calls();
        nccl.call(context, {.send = &buffer, .receive = &buffer, .count = 256}, hash, 3);
        nccl.call(context,
                  {.func = "Broadcast",
                   .func_number = 0,
                   .count = 64,
                   .root = 5,
                   .datatype = "ncclInt32",
                   .datatype_number = 2},
                  hash, 3);
        REQUIRE(calls() == first + 2);
        const auto& reduce = entry_at(first);
        CHECK(reduce.kind == OpKind::kAllReduce);
        CHECK(reduce.count == 256);
        CHECK(reduce.datatype == format::Datatype::kFloat32);
        CHECK(reduce.reduction == format::Reduction::kNoReduction);  // the interface does not tell
        CHECK((reduce.flags & format::kFromPlugin) != 0);
        CHECK(reduce.state == CallState::kEnqueued);
        CHECK(reduce.result == 0);
        CHECK(reduce.returned_ticks != 0);
        CHECK(reduce.channels == 2);
        CHECK(reduce.plugin_launches == 1);
        CHECK(reduce.comm_rank == 3);
        CHECK(reduce.sequence == 0);
        const auto& broadcast = entry_at(first + 1);
        CHECK(broadcast.kind == OpKind::kBroadcast);
        CHECK(broadcast.peer == 5);
        CHECK(broadcast.datatype == format::Datatype::kInt32);
        CHECK(broadcast.sequence == 1);
        CHECK(broadcast.communicator_id == reduce.communicator_id);
        nccl.close(context);
        CHECK(nccl.mask == 0);
    }
}

TEST_CASE("members agree on the identity of a communicator that only the plugin sees") {
    for (int version = 1; version <= kVersions; ++version) {
        CAPTURE(version);
        FakeNccl nccl(version);
        const uint64_t hash = 0x2000 + static_cast<uint64_t>(version);
        void* const one = nccl.open(hash, 2, 0);
        void* const other = nccl.open(hash, 2, 1);
        void* const stranger = nccl.open(hash + 0x500, 2, 0);
        const uint64_t first = calls();
        nccl.call(one, {}, hash, 0);
        nccl.call(other, {}, hash, 1);
        nccl.call(stranger, {}, hash + 0x500, 0);
        REQUIRE(calls() == first + 3);
        CHECK(entry_at(first).communicator_id == entry_at(first + 1).communicator_id);
        CHECK(entry_at(first).communicator != entry_at(first + 1).communicator);
        CHECK(entry_at(first).communicator_id != entry_at(first + 2).communicator_id);
        const auto& record = *test::recording().communicators.at(entry_at(first + 1).communicator).record;
        CHECK(record.nccl_hash == hash);
        CHECK(record.rank == 1);
        CHECK((record.flags & format::kCommIdentityGuessed) == 0);
        for (void* const context : {one, other, stranger}) {
            nccl.close(context);
        }
        CHECK(record.state == format::CommState::kDestroyed);
    }
}

TEST_CASE("a group's calls are recorded as the program made them, and launched by its end") {
    FakeNccl nccl(6);
    void* const context = nccl.open(0x3000, 4, 1);
    const uint64_t first = calls();
    void* const group = nccl.start_group(context, 2);
    void* const send = nccl.enter(context, {.func = "Send", .count = 10}, group);
    nccl.stop(send);
    void* const receive = nccl.enter(context, {.func = "Recv", .count = 10}, group);
    nccl.stop(receive);
    REQUIRE(calls() == first + 2);
    CHECK(entry_at(first).state == CallState::kGrouped);
    CHECK(entry_at(first).peer == -1);  // not told before the launch, and never guessed
    CHECK(entry_at(first).sequence == format::kNoSequence);
    CHECK(tracer::this_thread()->group_depth == 1);
    nccl.state(group, abi::kGroupEndApiStart);
    CHECK(entry_at(first).state == CallState::kLaunching);
    nccl.stop(nccl.launch(context, {.func = "Recv", .count = 10, .root = 2}, receive, 0, 1));
    nccl.stop(nccl.launch(context, {.func = "Send", .count = 10, .root = 3}, send, 0, 1));
    nccl.stop(group);
    CHECK(entry_at(first).kind == OpKind::kSend);
    CHECK(entry_at(first).peer == 3);
    CHECK(entry_at(first).sequence == 0);
    CHECK(entry_at(first + 1).peer == 2);
    CHECK(entry_at(first).state == CallState::kEnqueued);
    CHECK(entry_at(first).result == 0);
    CHECK(entry_at(first).group != 0);
    CHECK(entry_at(first).group == entry_at(first + 1).group);
    CHECK(tracer::this_thread()->group_depth == 0);
    CHECK(tracer::this_thread()->inside == 0);
    nccl.close(context);
}

TEST_CASE("a group whose launch goes on in another thread is not called successful") {
    FakeNccl nccl(5);
    void* const context = nccl.open(0x3100, 4, 1);
    const uint64_t first = calls();
    void* const group = nccl.start_group(context, 1);
    void* const entered = nccl.enter(context, {}, group);
    CHECK(entry_at(first).state == CallState::kEntered);
    CHECK(tracer::this_thread()->inside != 0);
    nccl.stop(group);
    CHECK(entry_at(first).result == 7);  // ncclInProgress
    CHECK(entry_at(first).state == CallState::kEnqueued);
    std::thread([&] { nccl.launch(context, {}, entered, 0, 1); }).join();
    CHECK(entry_at(first).plugin_launches == 1);
    CHECK(calls() == first + 1);
    nccl.close(context);
}

TEST_CASE("a call that a wrapper recorded is not recorded again") {
    for (int version = 1; version <= kVersions; ++version) {
        CAPTURE(version);
        FakeNccl nccl(version);
        const int seed = 100 + version;
        {
            const Wrapped quiet(nccl, seed, 0x4000, 2, 0);
            CHECK(nccl.mask == 0);  // nothing is asked for where wrappers see the calls
        }

        const Mode mode(tracer::NcclPluginMode::kProgress);
        const Wrapped comm(nccl, seed + 50, 0x4100, 2, 0);
        CHECK((nccl.mask & kProgressMask) == kProgressMask);
        CHECK((nccl.mask & abi::kKernelCh) == (version >= 3 ? int{abi::kKernelCh} : 0));
        int buffer = 0;
        const FakeCall call{.send = &buffer, .receive = &buffer, .count = 8, .channels = 4};
        const tracer::CallArgs args{
            .kind = OpKind::kAllReduce, .comm = comm.handle, .send = &buffer, .receive = &buffer, .count = 8};
        const uint64_t before = calls();
        void* launched = nullptr;
        const uint64_t ticket = wrapped_call(args, [&] { launched = nccl.call(comm.context, call, 0x4100, 0); });
        CHECK(calls() == before + 1);
        const auto& entry = entry_at(ticket);
        CHECK((entry.flags & format::kFromPlugin) == 0);
        CHECK(entry.plugin_launches == 1);
        CHECK(entry.channels == 4);
        CHECK(launched != nullptr);
        CHECK(test::record_of(comm.handle).nccl_hash == (version >= 4 ? 0x4100 : 0));
    }
}

TEST_CASE("versions that tell only of launches find the calls of a group again, from any thread") {
    FakeNccl nccl(4);
    const Mode mode(tracer::NcclPluginMode::kProgress);
    const Wrapped comm(nccl, 200, 0x4200, 2, 1);
    int first_buffer = 0;
    int second_buffer = 0;
    const tracer::CallArgs first_args{
        .kind = OpKind::kAllReduce, .comm = comm.handle, .send = &first_buffer, .receive = &first_buffer};
    const tracer::CallArgs second_args{
        .kind = OpKind::kAllReduce, .comm = comm.handle, .send = &second_buffer, .receive = &second_buffer};
    const uint64_t first = wrapped_call(first_args, [] {});
    const uint64_t second = wrapped_call(second_args, [] {});
    const uint64_t again = wrapped_call(first_args, [] {});
    std::thread([&] {
        nccl.launch(comm.context, {.send = &second_buffer, .receive = &second_buffer, .channels = 3}, nullptr, 0, 1);
        nccl.launch(comm.context, {.send = &first_buffer, .receive = &first_buffer, .channels = 5}, nullptr, 0, 1);
    }).join();
    CHECK(calls() == again + 1);
    CHECK(entry_at(first).channels == 5);
    CHECK(entry_at(second).channels == 3);
    CHECK(entry_at(again).channels == 0);
}

TEST_CASE("communicators that NCCL creates on threads of its own are joined by size and rank, or by their first call") {
    FakeNccl nccl(6);
    tracer::Call create;
    REQUIRE(enter_create_all(create, test::kAnyApi, 2, nullptr, nullptr));
    void* contexts[2]{};
    std::thread([&] {
        contexts[1] = nccl.open(0x4300, 2, 1);
        contexts[0] = nccl.open(0x4300, 2, 0);
    }).join();
    void* handles[] = {test::new_handle(), test::new_handle()};
    leave_create_all(create, handles, 2, 0);
    CHECK(nccl.mask == 0);
    CHECK(test::record_of(handles[0]).nccl_hash == 0x4300);
    CHECK(test::record_of(handles[1]).nccl_hash == 0x4300);

    // Two splits at once, of whose children nothing is known yet.
    tracer::Call group;
    REQUIRE(enter_group_start(group));
    leave_group_start(group, 0);
    void* children[2]{};
    for (void*& child : children) {
        tracer::Call split;
        REQUIRE(enter_create(split, test::kAnyApi, {.kind = OpKind::kCommSplit, .parent = handles[0], .color = 1}));
        leave_create(split, &child, 0);
    }
    void* child_contexts[2]{};
    std::thread([&] {
        child_contexts[1] = nccl.open(0x4402, 2, 0);
        child_contexts[0] = nccl.open(0x4401, 2, 0);
    }).join();
    CHECK((nccl.mask & abi::kCollApi) != 0);  // until it is known which is which
    children[0] = test::new_handle();
    children[1] = test::new_handle();
    REQUIRE(enter_group_end(group, test::kAnyApi, false));
    leave_group_end(group, 0);
    const uint64_t before = calls();
    for (int i = 0; i < 2; ++i) {
        wrapped_call({.kind = OpKind::kAllReduce, .comm = children[i]}, [&] { nccl.call(child_contexts[i], {}); });
    }
    CHECK(calls() == before + 2);
    CHECK(test::record_of(children[0]).nccl_hash == 0x4401);
    CHECK(test::record_of(children[1]).nccl_hash == 0x4402);
    CHECK(nccl.mask == 0);
    for (void* const context : {contexts[0], contexts[1], child_contexts[0], child_contexts[1]}) {
        nccl.close(context);
    }
}

TEST_CASE("a kernel that started and hangs is told from one that never started") {
    for (int version = 3; version <= kVersions; ++version) {
        CAPTURE(version);
        const Mode mode(tracer::NcclPluginMode::kProgress);
        FakeNccl nccl(version);
        const uint64_t hash = 0x5000 + static_cast<uint64_t>(version);
        void* const context = nccl.open(hash, 2, 0);
        const uint64_t first = calls();
        int buffer = 0;
        const FakeCall call{.send = &buffer, .receive = &buffer};
        void* const done = nccl.call(context, call, hash);
        void* const hung = nccl.call(context, call, hash);
        nccl.call(context, call, hash);  // never started
        void* const kernels[] = {nccl.start_kernel(context, done, 0, 100), nccl.start_kernel(context, done, 1, 101)};
        CHECK(entry_at(first).state == CallState::kStarted);
        for (void* const kernel : kernels) {
            nccl.state(kernel, abi::kKernelChStop, 0x1'0000'0102);
            nccl.stop(kernel);
        }
        CHECK(newest_channel().state == ChannelState::kDone);
        CHECK(newest_channel().collective == first + 1);
        if (version >= 4) {
            CHECK(newest_channel().device_started_ns == 101);
            CHECK(newest_channel().device_finished_ns == 0x1'0000'0102);  // more than 32 bits
        }
        nccl.start_kernel(context, hung, 0, 200);
        CHECK(entry_at(first).state == CallState::kFinished);
        CHECK(entry_at(first).gpu_finished_ticks >= entry_at(first).gpu_started_ticks);
        CHECK(entry_at(first).gpu_started_ticks != 0);
        CHECK(entry_at(first + 1).state == CallState::kStarted);
        CHECK(entry_at(first + 1).channels == 2);
        CHECK(entry_at(first + 1).channels_started == 1);
        CHECK(entry_at(first + 1).channels_finished == 0);
        CHECK(newest_channel().state == ChannelState::kRunning);
        CHECK(newest_channel().role == format::ChannelRole::kKernelChannel);
        CHECK(entry_at(first + 2).state == CallState::kEnqueued);
        CHECK(entry_at(first + 2).channels_started == 0);
        nccl.close(context);
    }
}

TEST_CASE("a proxy waits for what its oldest step waits for") {
    const Mode mode(tracer::NcclPluginMode::kProgress);
    FakeNccl nccl(5);
    void* const context = nccl.open(0x6000, 2, 0);
    void* const launched = nccl.call(context, {});
    const uint64_t collective = calls();
    void* const proxy = nccl.start_proxy(context, launched, getpid(), 1, 16, true);
    auto& channel = newest_channel();
    CHECK(channel.role == format::ChannelRole::kProxySend);
    CHECK(channel.peer == 1);
    CHECK(channel.steps == 16);
    CHECK(channel.collective == collective);
    void* const first = nccl.start_step(context, proxy, 4);  // NCCL's steps need not begin at 0
    void* const second = nccl.start_step(context, proxy, 5);
    nccl.state(first, 8);
    CHECK(channel.state == ChannelState::kWaitsForGpu);
    nccl.state(first, 20);
    CHECK(channel.state == ChannelState::kWaitsForPeer);
    nccl.state(first, 9);
    nccl.state(second, 8);
    CHECK(channel.state == ChannelState::kWaitsForNetwork);
    nccl.stop(first);
    CHECK(channel.steps_done == 1);
    CHECK(channel.state == ChannelState::kWaitsForGpu);
    nccl.stop(second);
    CHECK(channel.steps_done == 2);
    CHECK(channel.state == ChannelState::kRunning);
    nccl.stop(proxy);
    CHECK(channel.state == ChannelState::kDone);

    void* const receiver = nccl.start_proxy(context, launched, getpid(), 1, 2, false);
    void* const step = nccl.start_step(context, receiver, 0);
    nccl.state(step, 10);
    CHECK(newest_channel().state == ChannelState::kWaitsForPeer);
    nccl.state(step, 12);
    CHECK(newest_channel().state == ChannelState::kWaitsForGpu);

    FakeNccl old(1);
    void* const old_proxy = old.start_proxy(nullptr, nullptr, getpid(), 1, 8, true);
    old.proxy_state(old_proxy, 3, 6);
    CHECK(newest_channel().steps_done == 6);
    nccl.close(context);
}

TEST_CASE("a proxy that serves another process does not take that one's handles for its own") {
    FakeNccl nccl(5);
    void* const context = nccl.open(0x6100, 2, 0);
    void* const launched = nccl.call(context, {});
    nccl.start_proxy(reinterpret_cast<void*>(0x7f00'0000'1000), launched, getpid() + 1, 1, 4, true);
    CHECK(newest_channel().collective == 0);
    CHECK(newest_channel().steps == 4);
    nccl.close(context);
}

TEST_CASE("no context, stale and invented handles, and events out of order do no harm") {
    const Mode mode(tracer::NcclPluginMode::kProgress);
    for (int version = 1; version <= kVersions; ++version) {
        CAPTURE(version);
        FakeNccl nccl(version);
        const uint64_t before = calls();
        CHECK(nccl.call(nullptr, {}) == nullptr);
        CHECK(nccl.launch(reinterpret_cast<void*>(0x7f00'0000'1000), {}, nullptr, 1, 0) == nullptr);
        CHECK(calls() == before);
        for (uint64_t type = 0; type < 20; ++type) {
            nccl.start_raw(nullptr, uint64_t{1} << type);
        }
        for (const uint64_t invented : {~uint64_t{0}, uint64_t{1}, uint64_t{0x5000'0000'0000'1234}}) {
            void* const handle = reinterpret_cast<void*>(invented);
            nccl.state(handle, abi::kKernelChStop, 1);
            nccl.stop(handle);
            nccl.start_kernel(handle, handle, 255, 1);
            nccl.start_step(handle, handle, -1);
            nccl.close(handle);
        }
        void* const context = nccl.open(0x7000, 2, 0);
        void* const launched = nccl.call(context, {}, 0x7000);
        void* const kernel = nccl.start_kernel(context, launched, 0, 1);
        nccl.close(context);
        nccl.stop(kernel);  // a child outlives its parent
        nccl.stop(kernel);  // and is stopped twice
        const uint64_t after = calls();
        CHECK(nccl.call(context, {}, 0x7000) == nullptr);  // a stale context
        CHECK(calls() == after);
        nccl.close(context);
        CHECK(tracer::this_thread()->inside == 0);
        CHECK(tracer::this_thread()->group_depth == 0);
    }
}

TEST_CASE("a group or call that NCCL never ends, because it failed, does not deafen the thread") {
    FakeNccl nccl(6);
    void* const context = nccl.open(0x7100, 2, 0);
    void* const group = nccl.start_group(context, 1);
    nccl.enter(context, {}, group);  // an argument error: no stop of anything
    const uint64_t before = calls();
    nccl.call(context, {});
    CHECK(calls() == before + 1);
    nccl.start_group(context, 2);  // an explicit group that is never ended
    nccl.call(context, {});
    CHECK(calls() == before + 2);
    CHECK(tracer::this_thread()->inside == 0);
    CHECK(tracer::this_thread()->group_depth == 0);
    nccl.stop(group);  // stale: 2.28 stops a handle twice
    nccl.close(context);
}

TEST_CASE(
    "a call that was never launched, of a communicator that is gone, is not taken for one of a new communicator") {
    FakeNccl newest(6);
    void* const gone = newest.open(0x7200, 2, 0);
    newest.start_group(gone, 2);
    newest.call(gone, {});
    newest.close(gone);
    FakeNccl nccl(1);  // tells of launches only, and of the hash with the first
    void* const context = nccl.open(0x7300, 2, 0);
    const uint64_t before = calls();
    nccl.call(context, {}, 0x7300, 0);
    CHECK(calls() == before + 1);
    nccl.close(context);
}

TEST_CASE("the mask is what any communicator needs") {
    FakeNccl nccl(5);
    const Wrapped seen(nccl, 240, 0x8000, 2, 0);
    CHECK(nccl.mask == 0);
    void* const unseen = nccl.open(0x8001, 4, 2);
    const int wanted = nccl.mask;
    CHECK((wanted & abi::kCollApi) != 0);
    const Wrapped other(nccl, 241, 0x8002, 2, 1);
    CHECK(nccl.mask == wanted);
    nccl.close(unseen);
    CHECK(nccl.mask == 0);
}

TEST_CASE("switched off, the plugin starts nothing and clears the mask") {
    const Mode mode(tracer::NcclPluginMode::kOff);
    for (int version = 1; version <= kVersions; ++version) {
        FakeNccl nccl(version);
        CHECK(nccl.open(0x9000, 2, 0) == nullptr);
        CHECK(nccl.mask == 0);
    }
}

TEST_CASE("more communicators than there is room for, over and over") {
    FakeNccl nccl(6);
    for (int i = 0; i < 3000; ++i) {
        void* const context = nccl.open(0xA000 + static_cast<uint64_t>(i), 2, 0);
        REQUIRE(context != nullptr);
        nccl.call(context, {});
        nccl.close(context);
    }
    CHECK(nccl.mask == 0);
}

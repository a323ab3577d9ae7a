// Run once per method: TITANTRACE_GPU_PROGRESS names it.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <time.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_field.h"
#include "base/clock.h"
#include "fake_driver.h"
#include "fixture.h"
#include "tracer/context_end.h"
#include "tracer/graphs.h"

using namespace titan;
using format::CallState;
using format::CollectiveEntry;
using format::OpKind;
using test::fake;
using test::FakeStream;

namespace {

std::string_view method() {
    const char* const chosen = getenv("TITANTRACE_GPU_PROGRESS");
    return chosen != nullptr ? chosen : "writes";
}

template <typename Condition>
bool comes_true(Condition condition) {
    for (int round = 0; round < 500; ++round) {
        if (condition()) {
            return true;
        }
        const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
        nanosleep(&pause, nullptr);
    }
    return false;
}

// Of a field that the observing thread may be writing.
template <typename T>
T now_in(const T& field) {
    return load_field(const_cast<T&>(field));
}

CallState state_of(const CollectiveEntry& entry) { return now_in(entry.state); }

void* communicator() {
    static void* const made = test::create(90, 4, 0);
    return made;
}

const CollectiveEntry& all_reduce(FakeStream& stream, int result = 0) {
    return test::call({.kind = OpKind::kAllReduce, .comm = communicator(), .stream = &stream}, result);
}

}  // namespace

TEST_CASE("the method in force is in the header, and the driver's version") {
    communicator();
    const format::RingHeader& header = *test::recording().header;
    CHECK(format::name_of(header.gpu_progress) == method());
    CHECK(header.driver_version == 13000);
}

TEST_CASE("not reached, started, finished") {
    FakeStream stream{.context = &fake.first};
    const CollectiveEntry& entry = all_reduce(stream);
    REQUIRE(stream.work.size() == 2);
    CHECK(state_of(entry) == CallState::kPending);
    const auto marks = [&] {
        const auto* rows =
            reinterpret_cast<const format::LaunchMarks*>(reinterpret_cast<const char*>(test::recording().header) + [&] {
                for (const auto& region : test::recording().header->regions) {
                    if (region.kind == format::RegionKind::kLaunchMarks) {
                        return region.offset_bytes;
                    }
                }
                return uint64_t{0};
            }());
        const format::LaunchMarks& row = rows[(entry.launch - 1) % 16384];
        return format::LaunchMarks{now_in(row.started), now_in(row.finished)};
    };
    if (method() == "writes") {
        CHECK(marks().started != entry.launch);
    }
    stream.run(1);
    CHECK(comes_true([&] { return state_of(entry) == CallState::kStarted; }));
    CHECK(now_in(entry.gpu_started_ticks) >= entry.entered_ticks);
    CHECK(now_in(entry.gpu_finished_ticks) == 0);
    if (method() == "writes") {
        CHECK(marks().started == entry.launch);
        CHECK(marks().finished != entry.launch);
    }
    stream.run(1);
    CHECK(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
    CHECK(now_in(entry.gpu_finished_ticks) >= now_in(entry.gpu_started_ticks));
    CHECK(now_in(test::record_of(communicator()).finished) == entry.sequence + 1);
    tracer::PendingCollective pending{};
    CHECK(comes_true([&] { return !test::recording().gpu_progress.oldest_pending(pending); }));
}

TEST_CASE("a stream that is being captured is left alone") {
    FakeStream stream{.context = &fake.first};
    stream.begin_capture(&stream);
    const CollectiveEntry& entry = all_reduce(stream);
    CHECK(stream.work.empty());
    CHECK(state_of(entry) == CallState::kCaptured);
    CHECK((entry.flags & format::kCaptured) != 0);
    CHECK(entry.launch == 0);
}

TEST_CASE("a call that fails leaves no mark behind it") {
    FakeStream stream{.context = &fake.first};
    const CollectiveEntry& entry = all_reduce(stream, 5);
    CHECK(stream.work.size() == 1);
    CHECK(state_of(entry) == CallState::kFailed);
}

TEST_CASE("a graph launch has one pair of marks around all its calls") {
    int graph = 0;
    const int exec = 0;
    FakeStream capturing{.context = &fake.first};
    capturing.begin_capture(&graph);
    tracer::note_capture_begun(&capturing);
    all_reduce(capturing);
    all_reduce(capturing);
    tracer::note_capture_ended(&capturing, &graph);
    tracer::note_graph_instantiated(&exec, &graph);
    CHECK(capturing.work.empty());

    FakeStream stream{.context = &fake.first};
    tracer::Call launch;
    REQUIRE(tracer::enter_graph_launch(launch, test::kAnyApi, &exec, &stream));
    CHECK(stream.work.size() == 1);
    REQUIRE(launch.replayed == 2);
    const CollectiveEntry* const first = test::recording().collectives.find(launch.ticket);
    const CollectiveEntry* const second = test::recording().collectives.find(launch.ticket + 1);
    REQUIRE(first != nullptr);
    REQUIRE(second != nullptr);
    CHECK(state_of(*first) == CallState::kEntered);
    tracer::leave_graph_launch(launch, 0);
    CHECK(stream.work.size() == 2);
    CHECK(state_of(*first) == CallState::kPending);
    CHECK(first->launch == second->launch);
    CHECK(first->launch != 0);
    stream.run(1);
    CHECK(comes_true([&] { return state_of(*second) == CallState::kStarted; }));
    CHECK(state_of(*first) == CallState::kStarted);
    stream.run(1);
    CHECK(comes_true([&] { return state_of(*second) == CallState::kFinished; }));
    CHECK(state_of(*first) == CallState::kFinished);
    CHECK(now_in(test::record_of(communicator()).finished) == second->sequence + 1);

    SUBCASE("a launch that fails leaves no mark behind it") {
        REQUIRE(tracer::enter_graph_launch(launch, test::kAnyApi, &exec, &stream));
        tracer::leave_graph_launch(launch, 700);
        CHECK(stream.work.size() == 3);
        CHECK(state_of(*test::recording().collectives.find(launch.ticket)) == CallState::kFailed);
    }
    SUBCASE("a graph without collectives has no marks") {
        tracer::note_exec_destroyed(&exec);
        REQUIRE(tracer::enter_graph_launch(launch, test::kAnyApi, &exec, &stream));
        tracer::leave_graph_launch(launch, 0);
        CHECK(stream.work.size() == 2);
    }
    tracer::note_graph_destroyed(&graph);
    tracer::note_exec_destroyed(&exec);
}

TEST_CASE("a group has one pair of marks per stream, before and behind its end") {
    FakeStream one{.context = &fake.first};
    FakeStream other{.context = &fake.first};
    tracer::Call group;
    REQUIRE(tracer::enter_group_start(group));
    tracer::leave_group_start(group, 0);
    const CollectiveEntry& a = all_reduce(one);
    const CollectiveEntry& b = all_reduce(other);
    const CollectiveEntry& c = all_reduce(one);
    CHECK(one.work.empty());
    REQUIRE(tracer::enter_group_end(group, test::kAnyApi, false));
    CHECK(one.work.size() == 1);
    CHECK(other.work.size() == 1);
    tracer::leave_group_end(group, 0);
    CHECK(one.work.size() == 2);
    CHECK(other.work.size() == 2);
    CHECK(a.launch == c.launch);
    CHECK(a.launch != b.launch);
    one.run(2);
    CHECK(comes_true([&] { return state_of(a) == CallState::kFinished && state_of(c) == CallState::kFinished; }));
    CHECK(state_of(b) == CallState::kPending);
    other.run(2);
    CHECK(comes_true([&] { return state_of(b) == CallState::kFinished; }));
}

TEST_CASE("marks are made in the stream's own context") {
    FakeStream stream{.context = &fake.second};
    const int before = fake.pushes;
    const CollectiveEntry& entry = all_reduce(stream);
    CHECK(fake.pushes >= before + 2);
    CHECK(test::current_context() == &fake.first);
    CHECK(stream.work.size() == 2);
    stream.run(2);
    CHECK(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
}

TEST_CASE("events are used again") {
    FakeStream stream{.context = &fake.first};
    const int before = fake.events_made;
    for (int i = 0; i < 50; ++i) {
        const CollectiveEntry& entry = all_reduce(stream);
        stream.run(2);
        REQUIRE(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
    }
    CHECK(fake.events_made <= before + (method() == "writes" ? 0 : 4));
}

TEST_CASE("a call whose entry was overwritten while it was inside gives its event back") {
    FakeStream stream{.context = &fake.first};
    auto& ring = test::recording().collectives;
    const int before = fake.events_made;
    for (int i = 0; i < 50; ++i) {
        tracer::Call call;
        REQUIRE(tracer::enter_call(call, test::kAnyApi,
                                   {.kind = OpKind::kAllReduce, .comm = communicator(), .stream = &stream}));
        while (ring.holds(*call.entry, call.ticket)) {
            const uint64_t other = ring.claim();
            ring.publish(ring.begin(other), other);
        }
        tracer::leave_call(call, 0);
        stream.run(1);
    }
    CHECK(stream.work.size() == 50);
    CHECK(fake.events_made <= before + (method() == "writes" ? 0 : 4));
}

TEST_CASE("of sampled launches the others are left alone, and nothing is claimed about them") {
    uint32_t& sample = test::recording().config.gpu_progress.sample;
    sample = 3;
    FakeStream stream{.context = &fake.first};
    int observed = 0;
    std::array<int, 3> at_place{};  // of a step of three launches
    for (size_t i = 0; i < 30; ++i) {
        const bool is_observed = state_of(all_reduce(stream)) != CallState::kEnqueued;
        observed += is_observed ? 1 : 0;
        at_place[i % 3] += is_observed ? 1 : 0;
    }
    sample = 1;
    CHECK(observed >= 9);
    CHECK(observed <= 11);
    for (const int times : at_place) {
        CHECK(times > 0);
    }
    CHECK(stream.work.size() == 2 * static_cast<size_t>(observed));
    stream.run(stream.work.size());
}

TEST_CASE("where steps are marked, a sample has whole steps, and of the others a few launches") {
    constexpr int kSteps = 90, kLaunches = 5;
    uint32_t& sample = test::recording().config.gpu_progress.sample;
    // Other threads of the recorder read it.
    const auto mark = [](int64_t step) { store_field(test::recording().header->step, step); };
    sample = 3;
    FakeStream stream{.context = &fake.first};
    int whole = 0, others = 0;
    for (int step = 0; step < kSteps; ++step) {
        mark(step);
        int observed = 0;
        for (int i = 0; i < kLaunches; ++i) {
            observed += state_of(all_reduce(stream)) != CallState::kEnqueued ? 1 : 0;
        }
        whole += observed == kLaunches ? 1 : 0;
        others += observed == kLaunches ? 0 : observed;
        stream.run(stream.work.size());
    }
    sample = 1;
    mark(format::kNoStep);
    CHECK(whole == kSteps / 3);
    CHECK(others >= (kSteps - whole) * kLaunches / 9 / 2);
    CHECK(others <= (kSteps - whole) * kLaunches / 9 * 2);
}

TEST_CASE("timing tells how long the device took, on the host's clock") {
    if (method() != "timing") {
        MESSAGE("runs elsewhere: this run is about " << std::string(method()));
        return;
    }
    FakeStream stream{.context = &fake.first};
    const CollectiveEntry& entry = all_reduce(stream);
    stream.run(1);
    fake.device_ms += 41;
    stream.run(1);
    const uint64_t seen = now_ticks();
    REQUIRE(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
    const uint64_t took_ns = ticks_to_ns(now_in(entry.gpu_finished_ticks) - now_in(entry.gpu_started_ticks));
    CHECK(took_ns > 41'900'000);
    CHECK(took_ns < 42'100'000);
    CHECK(now_in(entry.gpu_finished_ticks) < seen + ns_to_ticks(5'000'000'000));
}

TEST_CASE("nothing is written in a context where the marks have no address") {
    if (method() != "writes") {
        MESSAGE("runs elsewhere: this run is about " << std::string(method()));
        return;
    }
    fake.refuse_addresses = true;
    FakeStream stream{.context = &fake.third};
    const CollectiveEntry& entry = all_reduce(stream);
    fake.refuse_addresses = false;
    CHECK(stream.work.empty());
    CHECK(state_of(entry) == CallState::kEnqueued);
    CHECK(entry.launch == 0);
}

// A context that is made later may have the address of one that has ended.
TEST_CASE("nothing of a context is used after its end") {
    using Ending = tracer::EndingContexts;
    const Ending reset = tracer::reset(tracer::kCurrentDevice);  // the current context is the one that ends
    const int registrations = fake.registrations;
    for (const Ending& ending : {tracer::destroyed(&fake.first), reset, tracer::released(fake.first.device)}) {
        FakeStream before{.context = &fake.first};
        const CollectiveEntry& finished = all_reduce(before);
        const CollectiveEntry& left = all_reduce(before);
        before.run(2);
        REQUIRE(comes_true([&] { return state_of(finished) == CallState::kFinished; }));
        {
            const tracer::ContextEnd end(ending);
            fake.end(fake.first);
            fake.primary_active = false;
        }
        fake.primary_active = true;
        CHECK(comes_true([&] { return state_of(left) == CallState::kEnqueued; }));
        FakeStream behind{.context = &fake.first};
        const CollectiveEntry& again = all_reduce(behind);
        CHECK(behind.work.size() == 2);
        behind.run(2);
        CHECK(comes_true([&] { return state_of(again) == CallState::kFinished; }));
    }
    CHECK(fake.uses_after_end == 0);
    CHECK(fake.registrations == registrations + (method() == "writes" ? 3 : 0));
}

// The context in which the tracer began may end while another one has work of ours queued.
TEST_CASE("what one context has queued survives the end of another") {
    FakeStream in_first{.context = &fake.first};
    FakeStream in_second{.context = &fake.second};
    all_reduce(in_first);
    in_first.run(2);
    const CollectiveEntry& queued = all_reduce(in_second);
    {
        const tracer::ContextEnd end(tracer::destroyed(&fake.first));
        fake.end(fake.first);
    }
    const int uses_after_end = fake.uses_after_end;
    in_second.run(2);
    CHECK(fake.uses_after_end == uses_after_end);
    CHECK(comes_true([&] { return state_of(queued) == CallState::kFinished; }));
    const CollectiveEntry& next = all_reduce(in_second);
    in_second.run(2);
    CHECK(comes_true([&] { return state_of(next) == CallState::kFinished; }));
}

TEST_CASE("a release that is not the last one ends nothing") {
    FakeStream stream{.context = &fake.first};
    const CollectiveEntry& entry = all_reduce(stream);
    const int made = fake.events_made;
    { const tracer::ContextEnd end(tracer::released(fake.first.device)); }
    stream.run(2);
    CHECK(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
    const CollectiveEntry& next = all_reduce(stream);
    stream.run(2);
    CHECK(comes_true([&] { return state_of(next) == CallState::kFinished; }));
    CHECK(fake.events_made <= made + 2);
}

TEST_CASE("rows of contexts that have ended are used again") {
    std::vector<test::FakeContext> contexts(2 * tracer::kMaxContexts);
    for (test::FakeContext& context : contexts) {
        FakeStream stream{.context = &context};
        const CollectiveEntry& entry = all_reduce(stream);
        CHECK(stream.work.size() == 2);
        stream.run(2);
        REQUIRE(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
        const tracer::ContextEnd end(tracer::destroyed(&context));
        fake.end(context);
    }
    CHECK(fake.uses_after_end == 0);
}

// Last: it changes the method for good.
TEST_CASE("events take over where the driver refuses writes") {
    if (method() != "writes") {
        MESSAGE("runs elsewhere: this run is about " << std::string(method()));
        return;
    }
    fake.refuse_writes_with = tracer::kCudaErrorNotSupported;
    FakeStream stream{.context = &fake.first};
    const CollectiveEntry& entry = all_reduce(stream);
    CHECK(stream.work.size() == 2);
    CHECK(stream.work[0].event != nullptr);
    CHECK(test::recording().header->gpu_progress == format::GpuProgressMethod::kEvents);
    stream.run(2);
    CHECK(comes_true([&] { return state_of(entry) == CallState::kFinished; }));
}

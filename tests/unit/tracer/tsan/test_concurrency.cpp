// Everything at once, for ThreadSanitizer: calls, groups, launches, captures and graph launches, communicators that
// come and go, markers, a device that moves, and dumps.
#include <doctest/doctest.h>
#include <titantrace.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fake_driver.h"
#include "fixture.h"
#include "tracer/graphs.h"
#include "watch.h"

using namespace titan;
using format::OpKind;
using format::WorkKind;
using test::fake;
using test::FakeStream;

namespace {

constexpr auto kDuration = std::chrono::seconds(2);

std::atomic<bool> over;

// That a slot is taken again a lap later, while somebody may still add to what it held, is how rings are meant to be,
// and nothing that ThreadSanitizer could approve of: the rings of this test are large and its calls slow, so that none
// wraps.
bool go_on() {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return !over.load();
}

void* communicator_of_thread(int seed) {
    static std::atomic<bool> busy;
    while (busy.exchange(true)) {  // the fixture's answers to queries are for one at a time
        std::this_thread::yield();
    }
    void* const made = test::create(seed, 4, 0);
    busy.store(false);
    return made;
}

void call(void* comm, FakeStream& stream, OpKind kind = OpKind::kAllReduce) {
    tracer::Call call;
    if (enter_call(call, test::kAnyApi,
                   {.kind = kind, .comm = comm, .count = 8, .datatype = 7, .peer = 1, .stream = &stream})) {
        leave_call(call, 0);
    }
}

void issue_calls(int seed, FakeStream& stream) {
    void* const comm = communicator_of_thread(seed);
    while (go_on()) {
        call(comm, stream);
        tracer::Call group;
        if (tracer::enter_group_start(group)) {
            tracer::leave_group_start(group, 0);
        }
        call(comm, stream, OpKind::kSend);
        call(comm, stream, OpKind::kRecv);
        if (tracer::enter_group_end(group, test::kAnyApi, false)) {
            tracer::leave_group_end(group, 0);
        }
    }
}

void issue_work(FakeStream& stream) {
    while (go_on()) {
        tracer::Call call;
        const auto state = tracer::enter_kernel(&stream, &stream, test::kAnyApi, 16);
        if (state != tracer::WorkState::kNotRecorded) {
            tracer::leave_unnamed(0, tracer::FunctionKind::kRuntimeSymbol, &stream, nullptr);
        }
        if (tracer::enter_work(&stream, &stream, test::kAnyApi, 0, static_cast<uint64_t>(WorkKind::kEventRecord)) !=
            tracer::WorkState::kNotRecorded) {
            tracer::leave_work(0);
        }
        if (tracer::enter_cuda(call, test::kAnyApi, &stream)) {
            tracer::leave_cuda(call, 0);
        }
        if (tracer::enter_query(call, test::kAnyApi, &stream)) {
            tracer::leave_query(call);
        }
    }
}

void capture_and_launch(int seed, FakeStream& captured, FakeStream& launched) {
    void* const comm = communicator_of_thread(seed);
    char handles[2];
    while (go_on()) {
        captured.begin_capture(&handles[0]);
        tracer::note_capture_begun(&captured);
        call(comm, captured);
        call(comm, captured);
        captured.end_capture();
        tracer::note_capture_ended(&captured, &handles[0]);
        tracer::note_graph_instantiated(&handles[1], &handles[0]);
        for (int i = 0; i < 20; ++i) {
            tracer::Call launch;
            if (tracer::enter_graph_launch(launch, test::kAnyApi, &handles[1], &launched)) {
                tracer::leave_graph_launch(launch, 0);
            }
        }
        tracer::note_exec_destroyed(&handles[1]);
        tracer::note_graph_destroyed(&handles[0]);
    }
}

// Fewer than the table has rows.
void come_and_go() {
    for (int i = 0; i < 400 && go_on(); ++i) {
        void* const comm = communicator_of_thread(10 + i % 200);
        tracer::Call call;
        if (enter_call(call, test::kAnyApi, {.kind = OpKind::kCommDestroy, .comm = comm})) {
            leave_call(call, 0);
        }
    }
}

// Every thread closes the span that another has opened.
std::atomic<uint64_t> handed_over{0};

void mark() {
    titan_mark of_task{};
    of_task.bytes = sizeof(of_task);
    of_task.task = 1;
    for (int64_t step = 0; go_on(); ++step) {
        titan_step(step);
        titan_span_begin("forward");
        titan_metric("loss", 1.0 / static_cast<double>(step + 1));
        titan_span_close(handed_over.exchange(titan_span_open("handed over", &of_task)), nullptr);
        titan_span_end();
    }
}

void dump() {
    while (!over.load()) {
        titan_dump("a test");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void run_device(std::vector<FakeStream>& streams) {
    while (!over.load()) {
        for (FakeStream& stream : streams) {
            stream.run(64);
        }
        std::this_thread::yield();
    }
}

}  // namespace

TEST_CASE("everything at once") {
    test::recording();
    std::vector<FakeStream> streams(6, FakeStream{.context = &fake.first});
    std::vector<std::thread> threads;
    threads.emplace_back(issue_calls, 1, std::ref(streams[0]));
    threads.emplace_back(issue_calls, 2, std::ref(streams[1]));
    threads.emplace_back(issue_work, std::ref(streams[2]));
    threads.emplace_back(issue_work, std::ref(streams[2]));
    threads.emplace_back(capture_and_launch, 3, std::ref(streams[3]), std::ref(streams[4]));
    threads.emplace_back(capture_and_launch, 4, std::ref(streams[5]), std::ref(streams[4]));
    threads.emplace_back(come_and_go);
    threads.emplace_back(mark);
    threads.emplace_back(mark);
    threads.emplace_back(dump);
    threads.emplace_back(run_device, std::ref(streams));
    std::this_thread::sleep_for(kDuration);
    over.store(true);
    for (std::thread& thread : threads) {
        thread.join();
    }
    format::RingHeader& header = *test::recording().header;
    CHECK(load_field(header.dumps_written) > 0);
    CHECK(load_field(header.cursors[0].head) > 1000);
    for (uint32_t i = 0; i < header.region_count; ++i) {
        CHECK(load_field(header.cursors[i].head) <= header.regions[i].count);
    }
    CHECK(load_field(header.losses[static_cast<size_t>(format::Loss::kSpansUnmatched)]) == 0);
}

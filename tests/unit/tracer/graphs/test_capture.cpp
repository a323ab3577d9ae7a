#include <doctest/doctest.h>

#include "fake_cuda.h"
#include "fixture.h"
#include "session.h"
#include "tracer/graphs.h"

using namespace titan;
using format::CallState;
using format::OpKind;

namespace {

uint64_t losses(format::Loss loss) { return test::recording().header->losses[static_cast<size_t>(loss)]; }

void start_group() {
    tracer::Call call;
    REQUIRE(tracer::enter_group_start(call));
    tracer::leave_group_start(call, 0);
}

void end_group(int result = 0) {
    tracer::Call call;
    REQUIRE(tracer::enter_group_end(call, test::kAnyApi, false));
    tracer::leave_group_end(call, result);
}

}  // namespace

TEST_CASE("a captured call takes no sequence number; every launch of its graph takes the next") {
    void* const comm = test::create(100, 4, 1);
    const test::Handle stream = test::new_stream();
    CHECK(test::all_reduce(comm, stream).sequence == 0);
    test::begin_capture(stream);
    const auto& captured = test::all_reduce(comm, stream, 77);
    CHECK(captured.state == CallState::kCaptured);
    CHECK((captured.flags & format::kCaptured) != 0);
    CHECK(captured.sequence == format::kNoSequence);
    CHECK(captured.graph != 0);
    const test::Handle graph = test::end_capture(stream);
    CHECK(test::record_of(comm).next_sequence == 1);

    const test::Handle exec = test::instantiate(graph);
    CHECK(test::record_of(comm).next_sequence == 1);
    const test::Handle other = test::new_stream();
    for (uint64_t turn = 0; turn < 3; ++turn) {
        const auto replayed = test::launch(exec, other);
        REQUIRE(replayed.size() == 1);
        const auto& entry = replayed[0];
        CHECK(entry.sequence == 1 + turn);
        CHECK(entry.count == 77);
        CHECK(entry.kind == OpKind::kAllReduce);
        CHECK(entry.datatype == format::Datatype::kFloat32);
        CHECK(entry.communicator_id == test::record_of(comm).id);
        CHECK(entry.comm_rank == 1);
        CHECK(entry.stream == reinterpret_cast<uint64_t>(other));
        CHECK(entry.flags == format::kReplayed);
        CHECK(entry.graph == captured.graph);
        CHECK(entry.state == CallState::kEnqueued);
        CHECK(entry.result == 0);
        CHECK(entry.returned_ticks >= entry.entered_ticks);
    }
    CHECK(test::all_reduce(comm, stream).sequence == 4);
    CHECK(test::launch(exec, other)[0].sequence == 5);
}

TEST_CASE("launches are numbered over all graphs, and their work entry has the number") {
    void* const comm = test::create(101, 4, 1);
    const test::Handle first =
        test::instantiate(test::capture([&](test::Handle stream) { test::all_reduce(comm, stream); }));
    const test::Handle second =
        test::instantiate(test::capture([&](test::Handle stream) { test::all_reduce(comm, stream); }));
    const test::Handle empty = test::instantiate(test::capture([](test::Handle) {}));
    const uint64_t before = test::launch(first, test::new_stream())[0].replay;
    CHECK(test::launch(empty, test::new_stream()).empty());
    const uint64_t after = test::launch(second, test::new_stream())[0].replay;
    CHECK(after == before + 1);

    tracer::Session& session = test::recording();
    const auto* const work = session.stream_work.find(session.stream_work.claim() - 1);
    REQUIRE(work != nullptr);
    CHECK(work->kind == format::WorkKind::kGraphLaunch);
    CHECK(work->object == reinterpret_cast<uint64_t>(second));
    CHECK(work->amount == after);
    CHECK(work->flags == 0);
}

TEST_CASE("a forked stream is part of the capture that it joined, and both orders of asking find it") {
    void* const comm = test::create(102, 4, 1);
    const test::Handle origin = test::new_stream();
    const test::Handle forked = test::new_stream();
    const test::Handle bystander = test::new_stream();
    test::begin_capture(origin);
    CHECK(tracer::is_capturing(origin));
    CHECK_FALSE(tracer::is_capturing(forked));
    test::fork_capture(origin, forked);
    test::all_reduce(comm, forked, 1);
    CHECK(tracer::is_capturing(forked));
    test::all_reduce(comm, origin, 2);
    const auto& eager = test::all_reduce(comm, bystander, 3);
    CHECK(eager.state == CallState::kEnqueued);
    CHECK(eager.sequence == 0);
    test::all_reduce(comm, forked, 4);
    const test::Handle exec = test::instantiate(test::end_capture(origin));
    CHECK_FALSE(tracer::is_capturing(origin));
    CHECK_FALSE(tracer::is_capturing(forked));
    const auto replayed = test::launch(exec, origin);
    REQUIRE(replayed.size() == 3);
    CHECK(replayed[0].count == 1);
    CHECK(replayed[1].count == 2);
    CHECK(replayed[2].count == 4);
    CHECK(replayed[2].sequence == 3);
}

TEST_CASE("two captures at a time keep apart") {
    void* const comm = test::create(103, 4, 1);
    const test::Handle a = test::new_stream();
    const test::Handle b = test::new_stream();
    const test::Handle a_fork = test::new_stream();
    test::begin_capture(a);
    test::begin_capture(b);
    test::fork_capture(a, a_fork);
    const uint32_t first = test::all_reduce(comm, a_fork, 1).graph;
    const uint32_t second = test::all_reduce(comm, b, 2).graph;
    CHECK(first != second);
    const test::Handle graph_b = test::end_capture(b);
    test::all_reduce(comm, a, 3);
    const test::Handle graph_a = test::end_capture(a);
    CHECK(test::launch(test::instantiate(graph_b), b).size() == 1);
    const auto replayed = test::launch(test::instantiate(graph_a), a);
    REQUIRE(replayed.size() == 2);
    CHECK(replayed[1].count == 3);
}

TEST_CASE("a driver that cannot say which capture it is: the stream tells, or there is only one") {
    void* const comm = test::create(104, 4, 1);
    test::set_driver_names_captures(false);
    const test::Handle a = test::new_stream();
    const test::Handle fork = test::new_stream();
    const test::Handle b = test::new_stream();
    test::begin_capture(a);
    test::fork_capture(a, fork);
    const uint32_t first = test::all_reduce(comm, fork, 1).graph;
    test::begin_capture(b);
    CHECK(test::all_reduce(comm, a, 2).graph == first);
    CHECK(test::all_reduce(comm, b, 3).graph != first);
    CHECK(test::all_reduce(comm, fork, 4).graph == first);
    const uint64_t before = losses(format::Loss::kGraphsUntracked);
    const test::Handle unknown = test::new_stream();
    test::fork_capture(b, unknown);
    const auto& lost = test::all_reduce(comm, unknown, 5);
    CHECK(lost.state == CallState::kCaptured);
    CHECK(lost.graph == 0);
    CHECK(losses(format::Loss::kGraphsUntracked) == before + 1);
    test::end_capture(b);
    CHECK(test::launch(test::instantiate(test::end_capture(a)), a).size() == 3);
    test::set_driver_names_captures(true);
}

TEST_CASE("groups: captured at the end, replayed with a group of their own each time") {
    void* const comm = test::create(105, 4, 1);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    test::all_reduce(comm, stream, 1);
    start_group();
    const auto& grouped = test::call({.kind = OpKind::kSend, .comm = comm, .peer = 2, .stream = stream});
    test::call({.kind = OpKind::kRecv, .comm = comm, .peer = 2, .stream = stream});
    CHECK(grouped.state == CallState::kGrouped);
    end_group();
    CHECK(grouped.state == CallState::kCaptured);
    start_group();
    test::all_reduce(comm, stream, 2);
    end_group();
    const test::Handle exec = test::instantiate(test::end_capture(stream));
    CHECK(test::call({.kind = OpKind::kSend, .comm = comm, .peer = 2}).sequence == 0);

    const auto once = test::launch(exec, stream);
    const auto twice = test::launch(exec, stream);
    REQUIRE(once.size() == 4);
    REQUIRE(twice.size() == 4);
    CHECK(once[0].group == 0);
    CHECK(once[1].group != 0);
    CHECK(once[2].group == once[1].group);
    CHECK(once[2].group_index == 1);
    CHECK(once[3].group != once[1].group);
    CHECK(once[3].group != 0);
    CHECK((once[1].flags & format::kInGroup) != 0);
    CHECK(twice[1].group > once[3].group);
    CHECK(once[1].sequence == 1);  // of its peer and direction
    CHECK(once[2].sequence == 0);
    CHECK(twice[1].sequence == 2);
    CHECK(once[1].peer == 2);
    CHECK(once[3].sequence == 1);
    start_group();
    CHECK(test::all_reduce(comm, stream, 2).group > twice[3].group);
    end_group();
}

TEST_CASE("what NCCL refused is not in the graph") {
    void* const comm = test::create(106, 4, 1);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    CHECK(test::all_reduce(comm, stream, 1, 4).state == CallState::kFailed);
    start_group();
    test::all_reduce(comm, stream, 2);
    end_group(5);
    test::all_reduce(comm, stream, 3);
    const auto replayed = test::launch(test::instantiate(test::end_capture(stream)), stream);
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].count == 3);
    CHECK(replayed[0].sequence == 0);
}

TEST_CASE("several communicators, each with its own numbers") {
    void* const rows = test::create(107, 4, 1);
    void* const columns = test::create(108, 2, 0);
    const test::Handle exec = test::instantiate(test::capture([&](test::Handle stream) {
        test::all_reduce(rows, stream);
        test::all_reduce(columns, stream);
        test::all_reduce(rows, stream);
    }));
    test::launch(exec, test::new_stream());
    const auto replayed = test::launch(exec, test::new_stream());
    REQUIRE(replayed.size() == 3);
    CHECK(replayed[0].sequence == 2);
    CHECK(replayed[1].sequence == 1);
    CHECK(replayed[2].sequence == 3);
    CHECK(replayed[1].comm_rank == 0);
}

TEST_CASE("members of one communicator in one process are told apart") {
    void* const first = test::create(114, 2, 0);
    void* const second = test::create(114, 2, 1);
    CHECK(test::record_of(first).id == test::record_of(second).id);
    const test::Handle exec = test::instantiate(test::capture([&](test::Handle stream) {
        test::all_reduce(first, stream);
        test::all_reduce(second, stream);
        test::all_reduce(first, stream);
    }));
    const auto replayed = test::launch(exec, test::new_stream());
    REQUIRE(replayed.size() == 3);
    CHECK(replayed[0].comm_rank == 0);
    CHECK(replayed[1].comm_rank == 1);
    CHECK(replayed[1].sequence == 0);
    CHECK(replayed[2].comm_rank == 0);
    CHECK(replayed[2].sequence == 1);
}

TEST_CASE("an invalidated capture leaves nothing behind") {
    void* const comm = test::create(109, 4, 1);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    test::all_reduce(comm, stream, 1);
    test::invalidate_capture(stream);
    const auto& late = test::all_reduce(comm, stream, 2, 1);
    CHECK(late.sequence == format::kNoSequence);
    CHECK(late.graph == 0);
    CHECK(test::end_capture(stream) == nullptr);
    CHECK_FALSE(test::recording().graphs.any_capture());
    test::begin_capture(stream);
    test::all_reduce(comm, stream, 3);
    const auto replayed = test::launch(test::instantiate(test::end_capture(stream)), stream);
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].count == 3);
}

TEST_CASE("a capture that was begun out of our sight is seen while another one is open") {
    void* const comm = test::create(110, 4, 1);
    const test::Handle hidden = test::new_stream();
    const test::Handle seen = test::new_stream();
    test::begin_capture(seen);
    test::begin_capture_unseen(hidden);
    CHECK(test::all_reduce(comm, hidden, 5).state == CallState::kCaptured);
    const test::Handle graph = test::end_capture(hidden);  // found by its graph
    test::end_capture(seen);
    const auto replayed = test::launch(test::instantiate(graph), seen);
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].count == 5);
    CHECK_FALSE(test::recording().graphs.any_capture());
}

TEST_CASE("a capture into a graph that is there adds to it; its executables stay as they were") {
    void* const comm = test::create(111, 4, 1);
    const test::Handle graph = test::capture([&](test::Handle stream) { test::all_reduce(comm, stream, 1); });
    const test::Handle before = test::instantiate(graph);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream, graph);
    test::all_reduce(comm, stream, 2);
    CHECK(test::end_capture(stream) == graph);
    CHECK(test::launch(before, stream).size() == 1);
    const auto replayed = test::launch(test::instantiate(graph), stream);
    REQUIRE(replayed.size() == 2);
    CHECK(replayed[1].count == 2);
}

TEST_CASE("the body of a conditional node is not guessed at") {
    void* const comm = test::create(112, 4, 1);
    const test::Handle body = test::new_graph();
    tracer::note_conditional_body(body);
    const uint64_t before = losses(format::Loss::kGraphsUntracked);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream, body);
    CHECK(test::all_reduce(comm, stream).state == CallState::kCaptured);
    test::end_capture(stream);
    CHECK(losses(format::Loss::kGraphsUntracked) == before + 1);
    CHECK(test::record_of(comm).next_sequence == 0);
}

TEST_CASE("each thread's default stream is another one") {
    void* const comm = test::create(113, 4, 1);
    const auto per_thread = reinterpret_cast<test::Handle>(uintptr_t{2});
    test::begin_capture(per_thread);
    CHECK(tracer::is_capturing(per_thread));
    test::all_reduce(comm, per_thread, 6);
    const auto replayed = test::launch(test::instantiate(test::end_capture(per_thread)), per_thread);
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].count == 6);
    CHECK(test::all_reduce(comm, nullptr).sequence == 1);

    // In programs built for per-thread default streams, 0 means it, too.
    const test::Handle forked = test::new_stream();
    const test::Handle other = test::new_stream();
    test::begin_capture(other);
    test::begin_capture_unseen(per_thread);
    tracer::note_capture_begun(nullptr);
    test::fork_capture(per_thread, forked);
    test::all_reduce(comm, forked, 7);
    test::all_reduce(comm, other, 8);
    const test::Handle graph = test::end_capture(per_thread);
    tracer::note_capture_ended(nullptr, graph);
    test::end_capture(other);
    const auto again = test::launch(test::instantiate(graph), other);
    REQUIRE(again.size() == 1);
    CHECK(again[0].count == 7);
}

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fake_cuda.h"
#include "fixture.h"
#include "session.h"
#include "tracer/graphs.h"

using namespace titan;
using format::CallState;
using format::OpKind;

namespace {

uint64_t untracked() { return test::recording().header->losses[static_cast<size_t>(format::Loss::kGraphsUntracked)]; }

// A graph with all_reduces of these counts.
test::Handle graph_of(void* comm, std::vector<size_t> counts) {
    return test::capture([&](test::Handle stream) {
        for (const size_t count : counts) {
            test::all_reduce(comm, stream, count);
        }
    });
}

std::vector<size_t> counts_of(test::Handle exec) {
    std::vector<size_t> counts;
    for (const auto& entry : test::launch(exec, test::new_stream())) {
        counts.push_back(entry.count);
    }
    return counts;
}

using Counts = std::vector<size_t>;

}  // namespace

TEST_CASE("executables and clones outlive the graph that they were made from") {
    void* const comm = test::create(130, 4, 1);
    const test::Handle graph = graph_of(comm, {1, 2});
    const test::Handle clone = test::new_graph();
    tracer::note_graph_cloned(clone, graph);
    const test::Handle exec = test::instantiate(graph);
    tracer::note_graph_destroyed(graph);
    CHECK(counts_of(exec) == Counts{1, 2});
    const test::Handle of_clone = test::instantiate(clone);
    tracer::note_graph_destroyed(clone);
    CHECK(counts_of(of_clone) == Counts{1, 2});
    // CUDA hands the addresses out again.
    test::instantiate_as(test::new_graph(), graph);
    graph_of(comm, {9, 9, 9});
    CHECK(counts_of(exec) == Counts{1, 2});
}

TEST_CASE("a handle that comes again stands for what it is now") {
    void* const comm = test::create(131, 4, 1);
    const test::Handle exec = test::instantiate(graph_of(comm, {1}));
    tracer::note_exec_destroyed(exec);
    CHECK(counts_of(exec).empty());
    test::instantiate_as(exec, graph_of(comm, {2, 3}));
    CHECK(counts_of(exec) == Counts{2, 3});
    test::instantiate_as(exec, test::new_graph());  // its destruction was not seen
    CHECK(counts_of(exec).empty());
}

TEST_CASE("an update replaces what the executable holds, and nothing else") {
    void* const comm = test::create(132, 4, 1);
    const test::Handle graph = graph_of(comm, {1});
    const test::Handle exec = test::instantiate(graph);
    const test::Handle other = test::instantiate(graph);
    const test::Handle update = graph_of(comm, {5});
    tracer::note_exec_updated(exec, update);
    tracer::note_graph_destroyed(update);
    CHECK(counts_of(exec) == Counts{5});
    CHECK(counts_of(other) == Counts{1});
}

TEST_CASE("child graphs are part of their parent from when they are added") {
    void* const comm = test::create(133, 4, 1);
    const test::Handle child = graph_of(comm, {7, 8});
    const test::Handle parent = test::new_graph();
    const test::Handle first = test::add_child(parent, child);
    const test::Handle inner = graph_of(comm, {3});
    const test::Handle second = test::add_child(parent, inner);
    test::add_child(parent, test::new_graph());  // without collectives
    const test::Handle exec = test::instantiate(parent);
    CHECK(counts_of(exec) == Counts{7, 8, 3});

    SUBCASE("a child of a child") {
        const test::Handle outer = graph_of(comm, {1});
        test::add_child(outer, parent);
        CHECK(counts_of(test::instantiate(outer)) == Counts{1, 7, 8, 3});
    }
    SUBCASE("a destroyed node is gone from the graph, not from its executables") {
        tracer::note_node_destroyed(first);
        CHECK(counts_of(test::instantiate(parent)) == Counts{3});
        CHECK(counts_of(exec) == Counts{7, 8, 3});
        tracer::note_node_destroyed(second);
        CHECK(counts_of(test::instantiate(parent)).empty());
    }
    SUBCASE("the executable's child is replaced in its place") {
        const test::Handle fresh = graph_of(comm, {70, 80});
        tracer::note_exec_child_set(exec, first, fresh);
        CHECK(counts_of(exec) == Counts{70, 80, 3});
        tracer::note_exec_child_set(exec, second, graph_of(comm, {30}));
        CHECK(counts_of(exec) == Counts{70, 80, 30});
        CHECK(counts_of(test::instantiate(parent)) == Counts{7, 8, 3});
    }
    SUBCASE("nodes of a clone have other handles: not guessed") {
        const test::Handle clone = test::new_graph();
        tracer::note_graph_cloned(clone, parent);
        const test::Handle of_clone = test::instantiate(clone);
        CHECK(counts_of(of_clone) == Counts{7, 8, 3});
        const uint64_t before = untracked();
        tracer::note_exec_child_set(of_clone, test::new_graph(), child);
        CHECK(untracked() == before + 1);
        CHECK(counts_of(of_clone).empty());
        tracer::note_exec_updated(of_clone, parent);
        CHECK(counts_of(of_clone) == Counts{7, 8, 3});
    }
}

TEST_CASE("runtime and driver both tell of what the runtime does through the driver") {
    void* const comm = test::create(143, 4, 1);
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    tracer::note_capture_begun(stream);
    test::all_reduce(comm, stream, 1);
    const test::Handle graph = test::end_capture(stream);
    tracer::note_capture_ended(stream, graph);
    CHECK_FALSE(test::recording().graphs.any_capture());
    const test::Handle child = graph_of(comm, {2});
    tracer::note_child_added(graph, test::add_child(graph, child), child);
    const test::Handle exec = test::instantiate(graph);
    test::instantiate_as(exec, graph);
    CHECK(counts_of(exec) == Counts{1, 2});
    tracer::note_graph_destroyed(graph);
    tracer::note_graph_destroyed(graph);
    CHECK(counts_of(exec) == Counts{1, 2});
}

TEST_CASE("groups of children keep apart from those of the parent") {
    void* const comm = test::create(134, 4, 1);
    const auto grouped_pair = [&](test::Handle stream) {
        tracer::Call call;
        REQUIRE(tracer::enter_group_start(call));
        tracer::leave_group_start(call, 0);
        test::all_reduce(comm, stream);
        test::all_reduce(comm, stream);
        REQUIRE(tracer::enter_group_end(call, test::kAnyApi, false));
        tracer::leave_group_end(call, 0);
    };
    const test::Handle parent = test::capture(grouped_pair);
    test::add_child(parent, test::capture(grouped_pair));
    const auto replayed = test::launch(test::instantiate(parent), test::new_stream());
    REQUIRE(replayed.size() == 4);
    CHECK(replayed[0].group == replayed[1].group);
    CHECK(replayed[2].group == replayed[3].group);
    CHECK(replayed[0].group != replayed[2].group);
}

TEST_CASE("a launch on a capturing stream becomes part of that capture") {
    void* const comm = test::create(135, 4, 1);
    const test::Handle inner = test::instantiate(graph_of(comm, {4, 5}));
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    test::all_reduce(comm, stream, 1);
    CHECK(test::launch(inner, stream).empty());
    tracer::Session& session = test::recording();
    const auto* const work = session.stream_work.find(session.stream_work.claim() - 1);
    REQUIRE(work != nullptr);
    CHECK(work->flags == format::kWorkCaptured);
    CHECK(test::launch(inner, stream, 700).empty());  // refused
    test::all_reduce(comm, stream, 2);
    CHECK(test::record_of(comm).next_sequence == 0);
    const test::Handle exec = test::instantiate(test::end_capture(stream));
    tracer::note_exec_destroyed(inner);
    CHECK(counts_of(exec) == Counts{1, 4, 5, 2});
    CHECK(test::record_of(comm).next_sequence == 4);
}

TEST_CASE("a launch elsewhere while a capture is open is a launch") {
    void* const comm = test::create(136, 4, 1);
    const test::Handle exec = test::instantiate(graph_of(comm, {4}));
    const test::Handle stream = test::new_stream();
    test::begin_capture(stream);
    CHECK(test::launch(exec, test::new_stream()).size() == 1);
    CHECK(test::launch(exec, nullptr).size() == 1);
    CHECK(test::end_capture(stream) != nullptr);
}

TEST_CASE("a launch that failed fails its calls") {
    void* const comm = test::create(137, 4, 1);
    const auto replayed = test::launch(test::instantiate(graph_of(comm, {4})), test::new_stream(), 719);
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].state == CallState::kFailed);
    CHECK(replayed[0].result == 1);
}

TEST_CASE("calls of a communicator that is gone are not counted on its successor") {
    void* const comm = test::create(138, 4, 1);
    const test::Handle exec = test::instantiate(graph_of(comm, {4}));
    test::record_of(comm).id ^= 1;  // as if its row had another tenant
    const auto replayed = test::launch(exec, test::new_stream());
    REQUIRE(replayed.size() == 1);
    CHECK(replayed[0].sequence == format::kNoSequence);
    CHECK(replayed[0].communicator == format::kNoIndex);
    CHECK(test::record_of(comm).next_sequence == 0);
}

TEST_CASE("a graph with more calls than the ring has slots counts them all") {
    void* const comm = test::create(139, 4, 1);
    const uint64_t slots = test::recording().collectives.slots();
    const test::Handle half = graph_of(comm, Counts(slots / 2 + 1, 1));
    const test::Handle parent = test::new_graph();
    test::add_child(parent, half);
    test::add_child(parent, half);
    const test::Handle exec = test::instantiate(parent);
    tracer::Call call;
    REQUIRE(tracer::enter_graph_launch(call, test::kAnyApi, exec, test::new_stream()));
    CHECK(call.replayed == slots + 2);
    tracer::leave_graph_launch(call, 0);
    CHECK(test::record_of(comm).next_sequence == slots + 2);
    const auto* const last = test::recording().collectives.find(call.ticket + slots + 1);
    REQUIRE(last != nullptr);
    CHECK(last->sequence == slots + 1);
    CHECK(last->state == CallState::kEnqueued);
    tracer::note_graph_destroyed(half);
    tracer::note_graph_destroyed(parent);
    tracer::note_exec_destroyed(exec);
}

TEST_CASE("capturing again and again needs no more room than the graphs that live") {
    void* const comm = test::create(140, 4, 1);
    const uint64_t before = untracked();
    for (int turn = 0; turn < 20'000; ++turn) {
        const test::Handle graph = graph_of(comm, Counts(100, 1));
        const test::Handle exec = test::instantiate(graph);
        tracer::note_graph_destroyed(graph);
        if (turn % 1000 == 0) {
            CHECK(test::launch(exec, test::new_stream()).size() == 100);
        }
        tracer::note_exec_destroyed(exec);
    }
    CHECK(untracked() == before);
}

TEST_CASE("too many graphs: the loss is counted, and whole lists are kept or none") {
    void* const comm = test::create(141, 4, 1);
    const uint64_t before = untracked();
    const test::Handle graph = graph_of(comm, {1, 2});
    std::vector<test::Handle> execs;
    while (untracked() == before && execs.size() < 100'000) {
        execs.push_back(test::instantiate(graph));
    }
    CHECK(untracked() == before + 1);
    CHECK(execs.size() > 6000);  // two full buckets are rare before
    CHECK(counts_of(execs.back()).empty());
    CHECK(counts_of(execs.front()) == Counts{1, 2});
    for (const test::Handle exec : execs) {
        tracer::note_exec_destroyed(exec);
    }
    CHECK(counts_of(test::instantiate(graph)) == Counts{1, 2});
}

TEST_CASE("no room for the calls: the graph's launches are recorded, and not expanded") {
    void* const comm = test::create(142, 4, 1);
    const uint64_t before = untracked();
    const test::Handle child = graph_of(comm, Counts(5'000, 1));
    const test::Handle parent = test::new_graph();
    while (untracked() == before) {
        test::add_child(parent, child);
    }
    const test::Handle exec = test::instantiate(parent);
    CHECK(counts_of(exec).empty());
    const uint64_t sequence = test::record_of(comm).next_sequence;
    test::add_child(parent, child);
    CHECK(counts_of(test::instantiate(parent)).empty());
    CHECK(test::record_of(comm).next_sequence == sequence);
    tracer::note_graph_destroyed(parent);
    CHECK(counts_of(test::instantiate(child)).size() == 5'000);
}

TEST_CASE("threads that capture, launch and destroy do not disturb each other") {
    constexpr int kThreads = 4;
    constexpr int kTurns = 200;
    void* comms[kThreads];
    for (int i = 0; i < kThreads; ++i) {
        comms[i] = test::create(150 + i, 4, 1);
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (void* const comm : comms) {
        threads.emplace_back([comm, &wrong] {
            uint64_t sequence = 0;
            for (int turn = 0; turn < kTurns; ++turn) {
                const test::Handle graph = graph_of(comm, Counts(1 + static_cast<size_t>(turn) % 20, 6));
                const test::Handle exec = test::instantiate(graph);
                tracer::note_graph_destroyed(graph);
                for (const auto& entry : test::launch(exec, test::new_stream())) {
                    wrong += entry.sequence != sequence++ ? 1 : 0;
                }
                tracer::note_exec_destroyed(exec);
            }
            wrong += test::record_of(comm).next_sequence != sequence ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "fixture.h"

using namespace titan;
using format::CallState;
using format::OpKind;

namespace {

tracer::CallArgs all_reduce(void* comm) {
    return {.kind = OpKind::kAllReduce, .comm = comm, .count = 128, .datatype = 7, .reduction = 0};
}

}  // namespace

TEST_CASE("an entry says what was called, with what, and how it returned") {
    void* const comm = test::create(20, 4, 2);
    int send = 0;
    int receive = 0;
    int stream = 0;
    const auto& entry = test::call({.kind = OpKind::kReduce,
                                    .comm = comm,
                                    .send = &send,
                                    .receive = &receive,
                                    .count = 77,
                                    .datatype = 9,
                                    .reduction = 2,
                                    .peer = 3,
                                    .stream = &stream});
    CHECK(entry.kind == OpKind::kReduce);
    CHECK(entry.communicator_id == test::record_of(comm).id);
    CHECK(entry.count == 77);
    CHECK(entry.datatype == format::Datatype::kBfloat16);
    CHECK(entry.reduction == format::Reduction::kMax);
    CHECK(entry.peer == 3);
    CHECK(entry.comm_rank == 2);
    CHECK(entry.send_buffer == reinterpret_cast<uint64_t>(&send));
    CHECK(entry.receive_buffer == reinterpret_cast<uint64_t>(&receive));
    CHECK(entry.stream == reinterpret_cast<uint64_t>(&stream));
    CHECK(entry.result == 0);
    CHECK(entry.state == CallState::kEnqueued);  // no GPU here
    CHECK(entry.returned_ticks >= entry.entered_ticks);
}

TEST_CASE("collectives count up from 0 per communicator; point-to-point has its own counters") {
    void* const first = test::create(21, 4, 0);
    void* const second = test::create(22, 4, 0);
    CHECK(test::call(all_reduce(first)).sequence == 0);
    CHECK(test::call(all_reduce(second)).sequence == 0);
    CHECK(test::call({.kind = OpKind::kSend, .comm = first, .peer = 1}).sequence == 0);
    CHECK(test::call({.kind = OpKind::kSend, .comm = first, .peer = 1}).sequence == 1);
    CHECK(test::call({.kind = OpKind::kSend, .comm = first, .peer = 2}).sequence == 0);
    CHECK(test::call({.kind = OpKind::kRecv, .comm = first, .peer = 1}).sequence == 0);
    CHECK(test::call(all_reduce(first)).sequence == 1);
    CHECK(test::record_of(first).next_sequence == 2);
}

TEST_CASE("a peer that cannot be does no harm") {
    void* const comm = test::create(23, 4, 0);
    CHECK(test::call({.kind = OpKind::kSend, .comm = comm, .peer = 4}).sequence == format::kNoSequence);
    CHECK(test::call({.kind = OpKind::kRecv, .comm = comm, .peer = -7}).sequence == format::kNoSequence);
}

TEST_CASE("errors are kept, handles of user-made reductions are not") {
    void* const comm = test::create(24, 4, 0);
    auto args = all_reduce(comm);
    args.reduction = 1234;
    const auto& entry = test::call(args, 4);
    CHECK(entry.state == CallState::kFailed);
    CHECK(entry.result == 4);
    CHECK(entry.reduction == format::Reduction::kPremulSum);
}

TEST_CASE("a call that NCCL refuses has no number, and one that fails in it has") {
    void* const comm = test::create(14, 4, 0);
    const auto& refused = test::call({.kind = OpKind::kBroadcast, .comm = comm, .peer = 9}, 4);
    CHECK(refused.state == CallState::kFailed);
    CHECK(refused.sequence == format::kNoSequence);
    CHECK(test::call({.kind = OpKind::kBroadcast, .comm = comm, .peer = 0}, 2).sequence == 0);
    CHECK(test::call({.kind = OpKind::kBroadcast, .comm = comm, .peer = 0}).sequence == 1);
}

TEST_CASE("a call inside a recorded call is not recorded again") {
    void* const comm = test::create(25, 4, 0);
    tracer::Call outer;
    REQUIRE(tracer::enter_call(outer, test::kAnyApi, all_reduce(comm)));
    tracer::Call inner;
    CHECK_FALSE(tracer::enter_call(inner, test::kAnyApi, all_reduce(comm)));
    CHECK_FALSE(tracer::enter_cuda(inner, test::kAnyApi, nullptr));
    tracer::leave_call(outer, 0);
    CHECK(test::record_of(comm).next_sequence == 1);
}

TEST_CASE("a call that a longjmp leaves is over, and the next one is recorded; one that it stays in is not") {
    void* const comm = test::create(28, 4, 0);
    const auto above = [](const tracer::Call& call) { return reinterpret_cast<uintptr_t>(&call) + sizeof(call); };
    tracer::Call left;
    REQUIRE(tracer::enter_call(left, test::kAnyApi, all_reduce(comm)));
    tracer::note_jump(reinterpret_cast<uintptr_t>(&left) - 4096);  // within what the call itself calls
    CHECK(tracer::is_nested());
    CHECK(left.entry->state == CallState::kEntered);
    tracer::note_jump(above(left));
    CHECK_FALSE(tracer::is_nested());
    CHECK(left.entry->returned_ticks != 0);
    CHECK(left.entry->state != CallState::kEntered);
    CHECK(left.entry->result == -1);

    tracer::Call cuda;
    REQUIRE(tracer::enter_cuda(cuda, test::kAnyApi, nullptr));
    tracer::note_jump(above(cuda));
    CHECK_FALSE(tracer::is_nested());
    CHECK(test::recording().cuda_calls.find(cuda.ticket)->returned_ticks != 0);
    CHECK(test::call(all_reduce(comm)).sequence == 1);
}

TEST_CASE("the thread's row says what it is inside, and what it last did") {
    void* const comm = test::create(26, 4, 0);
    tracer::Call call;
    REQUIRE(tracer::enter_call(call, test::kAnyApi, all_reduce(comm)));
    format::ThreadRecord* row = nullptr;
    for (uint64_t i = 0; i < test::recording().thread_rows; ++i) {
        if (test::recording().threads[i].thread == static_cast<uint32_t>(gettid())) {
            row = &test::recording().threads[i];
        }
    }
    REQUIRE(row != nullptr);
    CHECK(row->call == test::recording().api_names[test::kAnyApi]);
    CHECK(row->object == test::record_of(comm).id);
    CHECK(row->ticket == call.ticket + 1);
    CHECK(row->entered_ticks != 0);
    tracer::leave_call(call, 0);
    CHECK(row->entered_ticks == 0);
    CHECK(row->call == 0);
    CHECK(row->last_call == test::recording().api_names[test::kAnyApi]);

    // Queries in a row are polling, until the next call.
    const uint64_t returned_ticks = row->last_call_ticks;
    for (uint32_t polls = 1; polls <= 3; ++polls) {
        REQUIRE(tracer::enter_query(call, test::kAnyApi, &call));
        tracer::leave_query(call);
        CHECK(row->polls == polls);
    }
    CHECK(row->call == 0);
    CHECK(row->object == reinterpret_cast<uint64_t>(&call));
    CHECK(row->last_call_ticks > returned_ticks);
    test::call(all_reduce(comm));
    CHECK(row->polls == 0);
}

TEST_CASE("threads on one communicator: every sequence number once, none missing") {
    void* const comm = test::create(27, 4, 0);
    constexpr int kThreads = 4;
    constexpr int kCalls = 2000;
    std::vector<std::vector<uint64_t>> seen(kThreads);
    std::vector<std::thread> threads;
    for (auto& mine : seen) {
        threads.emplace_back([&mine, comm] {
            for (int i = 0; i < kCalls; ++i) {
                mine.push_back(test::call(all_reduce(comm)).sequence);
            }
        });
    }
    std::vector<int> times(kThreads * kCalls);
    for (size_t i = 0; i < seen.size(); ++i) {
        threads[i].join();
        for (const uint64_t sequence : seen[i]) {
            REQUIRE(sequence < times.size());
            ++times[sequence];
        }
    }
    CHECK(times == std::vector<int>(kThreads * kCalls, 1));
}

TEST_CASE("a completion that comes after the ring went round is counted, not written") {
    void* const comm = test::create(28, 4, 0);
    tracer::Call late;
    REQUIRE(tracer::enter_call(late, test::kAnyApi, all_reduce(comm)));
    std::thread([comm] {
        for (uint32_t i = 0; i < test::recording().config.collectives; ++i) {
            test::call(all_reduce(comm));
        }
    }).join();
    auto& losses = test::recording().header->losses;
    const uint64_t before = losses[static_cast<size_t>(format::Loss::kLateUpdates)];
    tracer::leave_call(late, 0);
    CHECK(losses[static_cast<size_t>(format::Loss::kLateUpdates)] == before + 1);
}

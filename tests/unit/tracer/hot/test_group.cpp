#include <doctest/doctest.h>

#include "fixture.h"

using namespace titan;
using format::CallState;
using format::OpKind;

namespace {

void start_group() {
    tracer::Call call;
    REQUIRE(tracer::enter_group_start(call));
    tracer::leave_group_start(call, 0);
}

tracer::Call enter_end(bool simulate = false) {
    tracer::Call call;
    REQUIRE(tracer::enter_group_end(call, test::kAnyApi, simulate));
    return call;
}

}  // namespace

TEST_CASE("grouped calls wait for the outermost end, which launches them together") {
    void* const comm = test::create(40, 4, 0);
    start_group();
    const auto& send = test::call({.kind = OpKind::kSend, .comm = comm, .peer = 1});
    start_group();
    const auto& receive = test::call({.kind = OpKind::kRecv, .comm = comm, .peer = 3});
    auto inner = enter_end();
    tracer::leave_group_end(inner, 0);
    CHECK(send.state == CallState::kGrouped);
    CHECK(receive.state == CallState::kGrouped);

    auto outer = enter_end();
    CHECK(send.state == CallState::kLaunching);
    tracer::leave_group_end(outer, 0);
    CHECK(send.state == CallState::kEnqueued);
    CHECK(receive.state == CallState::kEnqueued);
    CHECK(send.group == receive.group);
    CHECK(send.group_index == 0);
    CHECK(receive.group_index == 1);
    CHECK((send.flags & format::kInGroup) != 0);
    CHECK(send.returned_ticks >= receive.entered_ticks);
}

TEST_CASE("a group that fails fails its calls") {
    void* const comm = test::create(41, 4, 0);
    start_group();
    const auto& entry = test::call({.kind = OpKind::kAllReduce, .comm = comm});
    auto end = enter_end();
    tracer::leave_group_end(end, 5);
    CHECK(entry.state == CallState::kFailed);
    CHECK(entry.result == 5);
}

TEST_CASE("NCCL counts no call of a group that it refuses or only simulates, and neither do we") {
    for (const bool simulate : {false, true}) {
        void* const comm = test::create(simulate ? 45 : 46, 4, 0);
        const tracer::CallArgs send{.kind = OpKind::kSend, .comm = comm, .peer = 1};
        start_group();
        test::call({.kind = OpKind::kAllReduce, .comm = comm});
        const auto& first = test::call(send);
        test::call(send);
        auto end = enter_end(simulate);
        tracer::leave_group_end(end, simulate ? 0 : 4);
        CHECK(first.sequence == format::kNoSequence);
        CHECK(test::call(send).sequence == 0);
        CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).sequence == 0);
    }
}

TEST_CASE("a simulated end launches nothing") {
    void* const comm = test::create(42, 4, 0);
    start_group();
    const auto& entry = test::call({.kind = OpKind::kAllReduce, .comm = comm});
    auto end = enter_end(true);
    tracer::leave_group_end(end, 0);
    CHECK(entry.state == CallState::kReturned);
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).group == 0);
}

TEST_CASE("an end without a start is NCCL's to refuse, and does not upset us") {
    auto end = enter_end();
    tracer::leave_group_end(end, 5);
    void* const comm = test::create(43, 4, 0);
    CHECK(test::call({.kind = OpKind::kAllReduce, .comm = comm}).group == 0);
}

TEST_CASE("communicators made in a group are known when it ends") {
    unsigned char unique_id[128] = {44};
    void* first = nullptr;
    void* second = nullptr;
    start_group();
    for (int rank = 0; rank < 2; ++rank) {
        tracer::Call call;
        REQUIRE(tracer::enter_create(call, test::kAnyApi,
                                     {.kind = OpKind::kCommInit, .unique_id = unique_id, .size = 2, .rank = rank}));
        tracer::leave_create(call, rank == 0 ? &first : &second, 0);
    }
    auto end = enter_end();
    first = test::new_handle();
    second = test::new_handle();
    tracer::leave_group_end(end, 0);
    CHECK(test::record_of(first).id == test::record_of(second).id);
    CHECK(test::record_of(second).rank == 1);
    CHECK(test::record_of(first).state == format::CommState::kLive);
}

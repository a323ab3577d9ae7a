#include <doctest/doctest.h>

#include "fixture.h"

using namespace titan;
using format::CommState;
using format::OpKind;

TEST_CASE("the same unique id gives the same identity, another gives another") {
    void* const first = test::create(1, 4, 0);
    void* const second = test::create(1, 4, 1);
    void* const third = test::create(2, 4, 0);
    CHECK(test::record_of(first).id == test::record_of(second).id);
    CHECK(test::record_of(first).id != test::record_of(third).id);
    CHECK(test::record_of(first).state == CommState::kLive);
    CHECK(test::record_of(first).size == 4);
}

TEST_CASE("members of a split agree, whatever their key; colours and later splits differ") {
    void* const rank0 = test::create(3, 4, 0);
    void* const rank1 = test::create(3, 4, 1);
    const uint64_t color0 = test::record_of(test::split(rank0, 0, 0, 2, 0)).id;
    CHECK(test::record_of(test::split(rank1, 0, 9, 2, 1)).id == color0);

    void* const rank2 = test::create(3, 4, 2);
    CHECK(test::record_of(test::split(rank2, 1, 0, 2, 0)).id != color0);
    CHECK(test::record_of(test::split(rank0, 0, 0, 2, 0)).id != color0);  // its second split

    const auto& child = test::record_of(test::split(rank1, 5, 1, 3, 2));
    CHECK(child.size == 3);
    CHECK(child.rank == 2);
    CHECK(child.parent_id == test::record_of(rank1).id);
    CHECK(child.parent_rank == 1);
}

TEST_CASE("a shrink is known by who was left out, not by how many shrinks a rank has seen") {
    const int without_3[] = {3};
    const int without_1_2[] = {2, 1};
    const int without_1_2_sorted[] = {1, 2};
    void* const rank0 = test::create(4, 4, 0);
    void* const rank3 = test::create(4, 4, 3);
    test::shrink(rank0, without_3, 1, 3, 0);  // rank 3 does not take part in this one
    const uint64_t id = test::record_of(test::shrink(rank0, without_1_2, 2, 2, 0)).id;
    CHECK(test::record_of(test::shrink(rank3, without_1_2_sorted, 2, 2, 1)).id == id);
    CHECK(test::record_of(test::shrink(rank3, without_1_2_sorted, 2, 2, 1)).id != id);  // once more is another one
}

TEST_CASE("a destroyed communicator's handle can come back as another communicator") {
    void* const handle = test::create(5, 2, 0);
    const uint64_t id = test::record_of(handle).id;
    test::call({.kind = OpKind::kCommDestroy, .comm = handle});
    CHECK(test::recording().communicators.find(handle) == nullptr);

    unsigned char unique_id[128] = {6};
    void* result = nullptr;
    tracer::Call call;
    REQUIRE(tracer::enter_create(call, test::kAnyApi,
                                 {.kind = OpKind::kCommInit, .unique_id = unique_id, .size = 2, .rank = 0}));
    result = handle;
    tracer::leave_create(call, &result, 0);
    CHECK(test::record_of(handle).id != id);
    CHECK(test::record_of(handle).next_sequence == 0);
}

TEST_CASE("a handle never seen before gets a private identity and is counted as a loss") {
    auto& losses = test::recording().header->losses;
    const uint64_t before = losses[static_cast<size_t>(format::Loss::kUnknownCommunicators)];
    void* const handle = test::new_handle();
    test::call({.kind = OpKind::kAllReduce, .comm = handle, .count = 1, .datatype = 7, .reduction = 0});
    CHECK((test::record_of(handle).flags & format::kCommIdentityGuessed) != 0);
    CHECK(losses[static_cast<size_t>(format::Loss::kUnknownCommunicators)] == before + 1);
}

TEST_CASE("a failed creation is no communicator") {
    unsigned char unique_id[128] = {7};
    void* result = nullptr;
    tracer::Call call;
    REQUIRE(tracer::enter_create(call, test::kAnyApi,
                                 {.kind = OpKind::kCommInit, .unique_id = unique_id, .size = 2, .rank = 0}));
    tracer::leave_create(call, &result, 5);
    CHECK(call.communicator->record->state == CommState::kFailed);
    CHECK(call.communicator->record->create_result == 5);
}

TEST_CASE("a thousand communicators come and go: rows are reused, the living stay") {
    void* const living = test::create(8, 2, 0);
    for (int i = 0; i < 3000; ++i) {
        test::call({.kind = OpKind::kCommDestroy, .comm = test::create(9, 2, 0)});
    }
    CHECK(test::record_of(living).state == CommState::kLive);
    CHECK(test::record_of(test::create(10, 2, 1)).rank == 1);
}

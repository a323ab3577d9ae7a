#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

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

namespace {

uint64_t send_number(void* handle, int peer) {
    return test::call({.kind = OpKind::kSend, .comm = handle, .count = 1, .peer = peer}).sequence;
}

}  // namespace

TEST_CASE("the p2p counters of closed communicators are given again, those of the living are theirs") {
    const uint64_t lost = test::recording().header->losses[static_cast<size_t>(format::Loss::kP2pUncounted)];
    void* const living = test::create(11, 900, 0);
    CHECK(send_number(living, 3) == 0);
    for (int i = 0; i < 200; ++i) {
        void* const passing = test::create(12, 1000 - i, 0);
        CHECK(send_number(passing, 899 - i / 2) == 0);
        CHECK(send_number(passing, 899 - i / 2) == 1);
        test::call({.kind = OpKind::kCommDestroy, .comm = passing});
        CHECK(send_number(living, 3) == static_cast<uint64_t>(i) + 1);
    }
    for (int i = 0; i < 300; ++i) {
        test::create(13, 2000, 1);  // never sends
    }
    void* const last = test::create(14, 2000, 1);
    CHECK(send_number(last, 1999) == 0);
    CHECK(test::recording().header->losses[static_cast<size_t>(format::Loss::kP2pUncounted)] == lost);
    for (void* const handle : {living, last}) {
        test::call({.kind = OpKind::kCommDestroy, .comm = handle});
    }
}

TEST_CASE("a heap full of the living is said, and has room again when one of them goes") {
    auto& lost = test::recording().header->losses[static_cast<size_t>(format::Loss::kP2pUncounted)];
    const uint64_t before = lost;
    const auto& regions = test::recording().header->regions;
    const auto* const heap = std::find_if(std::begin(regions), std::end(regions), [](const auto& region) {
        return region.kind == format::RegionKind::kP2pCounters;
    });
    // More than half of it: other tests' communicators live there, too.
    const int size = static_cast<int>(heap->count / sizeof(uint64_t) / 2 * 9 / 16);
    void* const large = test::create(15, size, 0);
    CHECK(send_number(large, 1) == 0);
    void* const next = test::create(16, size, 0);
    CHECK(send_number(next, 1) == format::kNoSequence);
    CHECK(lost == before + 1);
    test::call({.kind = OpKind::kCommDestroy, .comm = large});
    CHECK(send_number(next, 1) == 0);
    CHECK(lost == before + 1);
    test::call({.kind = OpKind::kCommDestroy, .comm = next});
}

#include "formats/ring/ring_image.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "formats/layout/stacks_layout.h"
#include "ring_builder.h"

using namespace titan::format;
using namespace titan::synth;

namespace {

std::vector<uint64_t> tickets_of(const RingImage& image, RingLosses* losses = nullptr) {
    std::vector<uint64_t> tickets;
    const RingLosses found =
        image.for_each_collective([&](uint64_t ticket, const CollectiveEntry&) { tickets.push_back(ticket); });
    if (losses != nullptr) {
        *losses = found;
    }
    return tickets;
}

RingBuilder with_calls(int calls, uint64_t slots) {
    RingSpec spec;
    spec.collectives = slots;
    RingBuilder ring(spec);
    const uint32_t row = ring.add_communicator(0x1234, 2, 0, "dp:0");
    for (int i = 0; i < calls; ++i) {
        ring.add_call(row, OpKind::kAllReduce).sequence = ring.communicator(row).next_sequence++;
    }
    return ring;
}

// The same as a newer writer would leave it: 8 more bytes in each element but single bytes, and a region of a kind that
// is not known.
std::vector<std::byte> with_longer_elements(const RingBuilder& ring) {
    std::vector<std::byte> grown(ring.bytes().begin(), ring.bytes().begin() + kHeaderBytes);
    RingHeader header{};
    std::memcpy(&header, grown.data(), sizeof(header));
    for_each_region(header, [&](RegionDescriptor& region, const RegionCursor*) {
        const std::byte* element = ring.bytes().data() + region.offset_bytes;
        const uint32_t more = region.stride_bytes == 1 ? 0 : 8;
        region.offset_bytes = grown.size();
        for (uint64_t i = 0; i < region.count; ++i, element += region.stride_bytes) {
            grown.insert(grown.end(), element, element + region.stride_bytes);
            grown.insert(grown.end(), more, std::byte{0xAA});
        }
        region.stride_bytes += more;
    });
    header.more_regions[kMoreRegions - 1] = {RegionKind{kRegionKinds + 5}, 3, kHeaderBytes, UINT64_MAX, 0};
    std::memcpy(grown.data(), &header, sizeof(header));
    return grown;
}

}  // namespace

TEST_CASE("a ring gives back what was written, oldest first") {
    RingBuilder ring = with_calls(3, 8);
    const auto image = RingImage::open(ring.bytes());
    REQUIRE(image);
    CHECK(tickets_of(*image) == std::vector<uint64_t>{0, 1, 2});
    const auto records = image->communicators();
    REQUIRE(records.size() == 1);
    CHECK(image->text(records[0].second.name) == "dp:0");
    CHECK(records[0].second.next_sequence == 3);
}

TEST_CASE("a wrapped ring starts at the oldest entry and counts what it no longer holds") {
    RingBuilder ring = with_calls(21, 8);
    const auto image = RingImage::open(ring.bytes());
    REQUIRE(image);
    RingLosses losses;
    const auto tickets = tickets_of(*image, &losses);
    CHECK(tickets.front() == 13);
    CHECK(tickets.back() == 20);
    CHECK(tickets.size() == 8);
    CHECK(losses.overwritten == 13);
    CHECK(losses.torn == 0);
}

TEST_CASE("a slot that is being written is left out and counted") {
    RingBuilder ring = with_calls(5, 8);
    ring.call(2).slot_sequence = 2 * 2 + 1;
    const auto image = RingImage::open(ring.bytes());
    RingLosses losses;
    CHECK(tickets_of(*image, &losses) == std::vector<uint64_t>{0, 1, 3, 4});
    CHECK(losses.torn == 1);
}

TEST_CASE("entries newer than the copied head are seen") {
    RingBuilder ring = with_calls(5, 8);
    ring.header().cursors[0].head = 3;
    const auto image = RingImage::open(ring.bytes());
    CHECK(tickets_of(*image).size() == 5);
}

TEST_CASE("slots that were handed out again during the copy are dropped") {
    RingBuilder ring = with_calls(20, 8);  // tickets 12..19
    RegionHeads later{};
    later[static_cast<size_t>(RegionKind::kCollectives)] = 23;  // 12, 13 and 14 were being overwritten
    const auto image = RingImage::open(ring.bytes(), later);
    REQUIRE(image);
    RingLosses losses;
    const auto tickets = tickets_of(*image, &losses);
    CHECK(tickets == std::vector<uint64_t>{15, 16, 17, 18, 19});
    CHECK(losses.torn == 3);
}

TEST_CASE("foreign, unfinished, newer and cut rings are refused with the reason") {
    RingBuilder ring = with_calls(1, 8);
    const auto refused = [&](auto&& change) {
        RingBuilder copy = ring;
        change(copy);
        const auto image = RingImage::open(copy.bytes());
        REQUIRE_FALSE(image);
        return image.error().text();
    };
    CHECK(refused([](RingBuilder& r) { r.header().magic = 0; }).find("never finished") != std::string::npos);
    CHECK(refused([](RingBuilder& r) { r.header().magic = 7; }).find("not a titantrace ring") != std::string::npos);
    CHECK(refused([](RingBuilder& r) { r.header().endian_tag = 0x04030201; }).find("byte order") != std::string::npos);
    const std::string newer = refused([](RingBuilder& r) { r.header().major = 2; });
    CHECK(newer.find("2." + std::to_string(kRingMinor)) != std::string::npos);
    CHECK(newer.find(std::to_string(kRingMajor) + "." + std::to_string(kRingMinor)) != std::string::npos);
    CHECK(newer.find("titan-synth") != std::string::npos);
    CHECK(refused([](RingBuilder& r) { r.header().major = 0; }).find("0.0") != std::string::npos);
    CHECK(refused([](RingBuilder& r) { --r.header().regions[2].stride_bytes; }).find("fewer than 64 bytes") !=
          std::string::npos);
    CHECK(refused([](RingBuilder& r) { r.bytes().resize(kHeaderBytes + 100); }).find("past the end") !=
          std::string::npos);
    CHECK(refused([](RingBuilder& r) { r.bytes().resize(100); }).find("too short") != std::string::npos);
}

TEST_CASE("of a newer minor what is known is read: elements are longer, regions and numbers are new") {
    RingBuilder ring = with_calls(11, 8);
    ring.header().minor = 9;
    ring.call(10).kind = OpKind{999};
    const auto image = RingImage::open(ring.bytes());
    REQUIRE(image);
    const std::vector<std::byte> grown = with_longer_elements(ring);
    const auto newer = RingImage::open(grown);
    REQUIRE(newer);
    CHECK(grown.size() > ring.bytes().size());
    CHECK(tickets_of(*newer) == tickets_of(*image));
    REQUIRE(newer->communicators().size() == 1);
    CHECK(newer->text(newer->communicators()[0].second.name) == "dp:0");
    newer->for_each_collective([](uint64_t ticket, const CollectiveEntry& call) {
        CHECK(call.sequence == ticket);
        CHECK(call.kind == (ticket == 10 ? OpKind{999} : OpKind::kAllReduce));
    });
}

TEST_CASE("hostile offsets, counts and texts stay inside the bytes") {
    RingBuilder ring = with_calls(4, 8);
    RingHeader& header = ring.header();
    for (uint32_t i = 0; i < header.region_count; ++i) {
        if (!is_ring(header.regions[i].kind)) {  // a ring past the end is refused
            header.regions[i].count = UINT64_MAX;
            header.cursors[i].head = UINT64_MAX;
        }
    }
    header.cursors[0].head = UINT64_MAX - 3;
    ring.communicator(0).p2p_offset_bytes = UINT64_MAX - 8;
    ring.communicator(0).size = INT32_MAX;
    const auto image = RingImage::open(ring.bytes());
    REQUIRE(image);
    tickets_of(*image);
    for (const auto& [row, record] : image->communicators()) {
        const bool counted = image->for_each_peer(record, [](int32_t, uint64_t, uint64_t) {});
        CHECK((record.size != INT32_MAX || !counted));
        image->text(record.name);
    }
    for (uint32_t id = 0; id < 5000; ++id) {
        image->text(id);
        image->text(UINT32_MAX - id);
    }
    CHECK(image->threads().size() < ring.bytes().size());
}

TEST_CASE("random damage never leads outside") {
    RingBuilder ring = with_calls(30, 16);
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::byte> bytes = ring.bytes();
        for (int i = 0; i < 8; ++i) {
            bytes[random() % kHeaderBytes] = static_cast<std::byte>(random());
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        }
        bytes[0] = std::byte{'T'};
        if (const auto image = RingImage::open(bytes)) {
            tickets_of(*image);
            image->communicators();
            image->threads();
        }
    }
}

TEST_CASE("clock: anchors give the rate, hostile anchors give no harm") {
    RingHeader header{};
    header.clock_source = ClockSource::kTsc;
    header.ticks_per_second = 2'000'000'000;
    header.first_anchor = {2, 1'000, 5'000, 1'000'000'000};
    header.last_anchor = {2, 1'000 + 20'000'000'000, 5'000 + 10'000'000'000, 11'000'000'000};
    const RingClock clock(header);
    CHECK(clock.ns_per_tick() == doctest::Approx(0.5));
    CHECK(clock.realtime_ns(1'000) == 1'000'000'000);
    CHECK(clock.realtime_ns(0) == 0);
    CHECK(clock.span_ns(1'000, 3'000) == 1'000);
    CHECK(clock.span_ns(3'000, 1'000) == -1'000);

    header.last_anchor.ticks *= 2;  // the machine slept for as long as it ran, and only the counter went on
    CHECK(RingClock(header).ns_per_tick() == doctest::Approx(0.5));

    header.last_anchor.ticks = 1;  // backwards: the estimate holds
    CHECK(RingClock(header).ns_per_tick() == doctest::Approx(0.5));
    header.ticks_per_second = 0;
    CHECK(RingClock(header).ns_per_tick() == doctest::Approx(1.0));
    header.last_anchor = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const RingClock far(header);
    far.realtime_ns(UINT64_MAX);
    far.realtime_ns(1);
    far.ticks_at_monotonic(UINT64_MAX);
}

TEST_CASE("images of samples: the older one first, none that was not begun, and nothing of a region that is damaged") {
    RingBuilder ring = with_calls(3, 8);
    std::vector<std::byte> bytes(ring.bytes().begin(), ring.bytes().end());
    const size_t begin = bytes.size();
    constexpr size_t kEach = 4096;
    bytes.resize(begin + kSampleImages * kEach);
    RingHeader header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    const auto images = [&](RegionDescriptor region) {
        header.more_regions[4] = region;
        std::memcpy(bytes.data(), &header, sizeof(header));
        const auto image = RingImage::open(bytes);
        REQUIRE(image);
        return image->stack_samples();
    };
    const auto begun = [&](size_t number, uint64_t moment) {
        StacksHeader stacks{};
        stacks.magic = kStacksMagic;
        stacks.began_realtime_ns = moment;
        std::memcpy(bytes.data() + begin + number * kEach, &stacks, sizeof(stacks));
    };
    const RegionDescriptor sound{RegionKind::kStackSamples, 1, begin, kSampleImages * kEach, 0};
    CHECK(images({}).empty());
    CHECK(images(sound).empty());
    begun(0, 20);
    REQUIRE(images(sound).size() == 1);
    begun(1, 10);
    REQUIRE(images(sound).size() == 2);
    CHECK(images(sound)[0].data() == bytes.data() + begin + kEach);
    CHECK(images(sound)[0].size() == kEach);
    CHECK(images({RegionKind::kStackSamples, 8, begin, kEach / 8, 0}).empty());
    CHECK(images({RegionKind::kStackSamples, 1, begin, 200, 0}).empty());
    CHECK(images({RegionKind::kStackSamples, 1, UINT64_MAX - 8, UINT64_MAX, 0}).empty());
    for (const auto& image : images({RegionKind::kStackSamples, 1, begin + 3, UINT64_MAX, 0})) {
        CHECK(image.data() + image.size() <= bytes.data() + bytes.size());
    }
}

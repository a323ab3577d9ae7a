// Journals: what is packed is what is read; and whatever else lies in the file.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "formats/container/journal_reader.h"
#include "formats/container/journal_writer.h"
#include "formats/container/packed_number.h"
#include "formats/container/section_writer.h"
#include "formats/ring/journal_image.h"

using namespace titan::format;

namespace {

// Texts are "text 7", places "place 7".
MarkerWords words() {
    return {nullptr,
            [](void*, uint32_t id, char* into, size_t capacity_bytes) {
                const std::string text = (id >= 1000 ? "place " : "text ") + std::to_string(id % 1000);
                const size_t length = text.size() < capacity_bytes ? text.size() : capacity_bytes;
                std::memcpy(into, text.data(), length);
                return length;
            },
            [](void*, uint32_t site) {
                return MarkerSiteRecord{kToldSite | site, 1000 + site, 0};
            }};
}

RingHeader header() {
    RingHeader header{};
    header.magic = kRingMagic;
    header.major = kRingMajor;
    header.endian_tag = kEndianTag;
    header.pid = 4711;
    header.rank = 3;
    header.pid_start_ticks = 99;
    std::strcpy(header.boot_id, "boot");
    header.ticks_per_second = 1'000'000'000;
    return header;
}

MarkerEntry marker(MarkerKind kind, uint32_t name, uint64_t ticks) {
    MarkerEntry entry{};
    entry.kind = kind;
    entry.name = name;
    entry.ticks = ticks;
    entry.step = 7;
    entry.thread = 4712;
    return entry;
}

// Any values in all fields: only prediction may be worse for them.
std::vector<MarkerEntry> random_markers(size_t count, uint32_t seed) {
    std::mt19937_64 random(seed);
    std::vector<MarkerEntry> markers(count);
    for (MarkerEntry& entry : markers) {
        entry.kind = static_cast<MarkerKind>(random() % 12);
        entry.ticks = random();
        entry.value = random();
        entry.step = static_cast<int64_t>(random());
        entry.name = static_cast<uint32_t>(random() % 40);
        entry.text = static_cast<uint32_t>(random() % 40);
        entry.site = static_cast<uint32_t>(random() % 20);
        entry.thread = static_cast<uint32_t>(random());
        entry.depth = static_cast<uint8_t>(random());
        entry.detail = static_cast<uint8_t>(random());
        entry.span = static_cast<uint32_t>(random());
        entry.extra = random();
    }
    return markers;
}

class Writer {
  public:
    Writer() : workspace_(section_workspace_bytes()), block_(std::make_unique<JournalBlock>()) {
        const DumpHeader begin = make_file_header(kJournalMagic, kJournalMajor, kJournalMinor);
        append(this, &begin, sizeof(begin));
    }
    size_t add(uint64_t first_ticket, std::vector<MarkerEntry> markers) {
        const RingHeader of = header();
        const size_t packed = block_->pack(of, {first_ticket, markers}, sums, words());
        SectionWriter sections(workspace_.data(), workspace_.size(), append, this);
        const auto bytes = block_->bytes();
        CHECK(sections.add(static_cast<SectionKind>(JournalSection::kBlock), bytes.data(), bytes.size(), 0));
        index_->add(of, block_->row(), sections.written_bytes());
        return packed;
    }
    // With an index of all blocks so far in front of them.
    std::vector<std::byte> indexed() {
        const std::vector<std::byte> blocks(file.begin() + sizeof(DumpHeader), file.end());
        file.resize(sizeof(DumpHeader));
        SectionWriter sections(workspace_.data(), workspace_.size(), append, this);
        const auto bytes = index_->pack();
        REQUIRE(!bytes.empty());
        CHECK(sections.add(static_cast<SectionKind>(JournalSection::kIndex), bytes.data(), bytes.size(), 0));
        file.insert(file.end(), blocks.begin(), blocks.end());
        return file;
    }
    BlockIndex& index() { return *index_; }
    std::vector<std::byte> file;
    StepSums sums{};

  private:
    static bool append(void* self, const void* bytes, size_t size_bytes) {
        const auto* const begin = static_cast<const std::byte*>(bytes);
        auto& file = static_cast<Writer*>(self)->file;
        file.insert(file.end(), begin, begin + size_bytes);
        return true;
    }
    std::vector<char> workspace_;
    std::unique_ptr<JournalBlock> block_;
    std::unique_ptr<BlockIndex> index_ = std::make_unique<BlockIndex>();
};

MarkerBlock block_of(const std::vector<std::byte>& file, const JournalPart& part) {
    auto block = read_block(std::span(file).subspan(part.offset_bytes, part.size_bytes));
    REQUIRE(block);
    return std::move(*block);
}

bool same(const MarkerEntry& a, const MarkerEntry& b) {
    return a.kind == b.kind && a.ticks == b.ticks && a.value == b.value && a.step == b.step && a.thread == b.thread &&
           a.depth == b.depth && a.detail == b.detail && a.span == b.span && a.extra == b.extra;
}

std::string name_in(const MarkerBlock& block, uint32_t local) {
    return local == 0 || local > block.texts.size() ? std::string() : block.texts[local - 1];
}

}  // namespace

TEST_CASE("what is packed is what is read") {
    Writer writer;
    const std::vector<MarkerEntry> markers = random_markers(1000, 1);
    CHECK(writer.add(5000, markers) == markers.size());
    const auto index = index_journal(writer.file);
    REQUIRE(index);
    CHECK(index->problems.empty());
    REQUIRE(index->parts.size() == 1);
    const JournalPart& part = index->parts.front();
    CHECK(index->processes == std::vector<JournalProcess>{{"boot", 4711, 99}});
    CHECK(part.process == 0);
    CHECK(part.first_ticket == 5000);
    CHECK(part.markers == 1000);
    const MarkerBlock block = block_of(writer.file, part);
    REQUIRE(block.markers.size() == markers.size());
    for (size_t i = 0; i < markers.size(); ++i) {
        CAPTURE(i);
        REQUIRE(same(block.markers[i], markers[i]));
        CHECK(block.markers[i].slot_sequence == 2 * (5000 + i) + 2);
        const std::string name = markers[i].name == 0 ? "" : "text " + std::to_string(markers[i].name);
        CHECK(name_in(block, block.markers[i].name) == name);
        if (markers[i].site != 0) {
            const MarkerSiteRecord& site = block.sites[block.markers[i].site - 1];
            CHECK(site.key == (kToldSite | markers[i].site));
            CHECK(name_in(block, site.place) == "place " + std::to_string(markers[i].site));
        }
    }
}

TEST_CASE("sums of steps") {
    Writer writer;
    std::vector<StepSum> steps = {{7, 3, 4096, 100, 200, 3, 1000, 1900}, {8, 4, 1 << 30, 1, 0, 0, 1950, 1950}};
    writer.sums = {40, 47, steps};
    CHECK(writer.add(0, {}) == 0);
    writer.add(0, random_markers(5, 6));
    const auto index = index_journal(writer.file);
    REQUIRE(index);
    CHECK(index->problems.empty());
    REQUIRE(index->parts.size() == 2);
    for (const JournalPart& part : index->parts) {
        CHECK(part.first_call == 40);
        CHECK(part.next_call == 47);
        const MarkerBlock block = block_of(writer.file, part);
        REQUIRE(block.steps.size() == 2);
        CHECK(std::memcmp(block.steps.data(), steps.data(), 2 * sizeof(StepSum)) == 0);
    }
    CHECK(index->parts[0].markers == 0);
    std::vector<std::byte> memory;
    const auto image = image_of(block_of(writer.file, index->parts[0]), memory);
    REQUIRE(image);
    CHECK(image->first_marker() == 0);
}

TEST_CASE("coarse numbers") {
    for (uint64_t number = 0; number < 512; ++number) {
        CHECK(to_coarse(number, 9) == number);
    }
    std::mt19937_64 random(3);
    uint64_t before = 0;
    for (unsigned shift = 0; shift < 64; ++shift) {
        for (int i = 0; i < 100; ++i) {
            const uint64_t number = (random() | uint64_t{1} << 63) >> shift;
            for (const unsigned bits : {9U, 14U}) {
                const double read = static_cast<double>(from_coarse(to_coarse(number, bits), bits));
                CHECK(read ==
                      doctest::Approx(static_cast<double>(number)).epsilon(1.0 / static_cast<double>(1U << bits)));
                CHECK(to_coarse(static_cast<uint64_t>(from_coarse(to_coarse(number, bits), bits)), bits) ==
                      to_coarse(number, bits));
            }
        }
        before = std::max(before, to_coarse(UINT64_MAX >> shift, 9));
    }
    CHECK(before < 1U << 15);  // two bytes and a bit
    CHECK(from_coarse(UINT64_MAX, 9) == UINT64_MAX);
    CHECK(from_coarse(to_coarse(UINT64_MAX, 14), 14) == UINT64_MAX);
}

namespace {

bool is_near(uint64_t read, uint64_t written) {
    return static_cast<double>(read) == doctest::Approx(static_cast<double>(written)).epsilon(0.002);
}

// As they come from a ring: names are ids there.
struct RandomSums {
    std::vector<StepSum> steps;
    std::vector<StepCalls> calls;
    std::vector<StepCommunicator> communicators;
    std::vector<HealthExtremes> health;

    StepSums sums() { return {0, 1000, steps, calls, communicators, health}; }
};

RandomSums random_sums(uint32_t seed) {
    std::mt19937_64 random(seed);
    RandomSums made;
    made.communicators = {{0xabcdef, 8, 21}, {77, -1, 0}};
    for (int64_t step = 5; step < 25; ++step) {
        made.steps.push_back({step, 3, 4096, random(), random(), 3, random(), random()});
        for (const uint64_t id : {uint64_t{0xabcdef}, uint64_t{77}, uint64_t{0}}) {
            made.calls.push_back({step, id, static_cast<OpKind>(random() % 40), 1 + random() % 100, random(), random(),
                                  random(), random() % 100, random(), random(), 0});
        }
    }
    for (uint32_t i = 0; i < 20; ++i) {
        made.health.push_back(
            {i == 0 ? 0 : 31 + i, random(), std::bit_cast<double>(random()), 350.5, 7, -1, 5, 9, random(), random()});
    }
    return made;
}

}  // namespace

TEST_CASE("sums by communicator and operation, and readings of the machine") {
    Writer writer;
    const RandomSums written = random_sums(9);
    RandomSums packed = written;
    writer.sums = packed.sums();
    CHECK(writer.add(0, random_markers(100, 3)) == 100);
    const auto index = index_journal(writer.file);
    REQUIRE(index);
    CHECK(index->problems.empty());
    CHECK(index->parts.front().overlaps(24, 24));
    const MarkerBlock block = block_of(writer.file, index->parts.front());
    REQUIRE(block.calls.size() == written.calls.size());
    for (size_t i = 0; i < written.calls.size(); ++i) {
        CAPTURE(i);
        const StepCalls& read = block.calls[i];
        const StepCalls& own = written.calls[i];
        CHECK(read.is_of(own.communicator_id, own.kind));
        CHECK(read.step == own.step);
        CHECK(read.calls == own.calls);
        CHECK(read.bytes == own.bytes);
        CHECK(read.timed_calls == own.timed_calls);
        CHECK(is_near(read.host_ticks, own.host_ticks));
        CHECK(is_near(read.device_ticks, own.device_ticks));
        CHECK(is_near(read.longest_ticks, own.longest_ticks));
        const auto apart = static_cast<int64_t>(read.entered_ticks() - own.entered_ticks());
        CHECK(std::abs(static_cast<double>(apart)) < 0x1p63 / 0x1p13);
    }
    REQUIRE(block.communicators.size() == 2);
    CHECK(block.communicators[0].size == 8);
    CHECK(block.text(block.communicators[0].name) == "text 21");
    CHECK(block.text(block.communicators[1].name).empty());
    REQUIRE(block.health.size() == written.health.size());
    for (size_t i = 0; i < written.health.size(); ++i) {
        CAPTURE(i);
        const HealthExtremes& read = block.health[i];
        const HealthExtremes& own = written.health[i];
        CHECK(block.text(read.name) == (i == 0 ? "" : "text " + std::to_string(31 + i)));
        CHECK(read.readings == own.readings);
        CHECK(std::bit_cast<uint64_t>(read.least) == std::bit_cast<uint64_t>(own.least));
        CHECK(read.greatest == own.greatest);
        CHECK(std::tie(read.first_step, read.last_step, read.least_step, read.greatest_step) ==
              std::tie(own.first_step, own.last_step, own.least_step, own.greatest_step));
        CHECK(std::tie(read.first_ticks, read.last_ticks) == std::tie(own.first_ticks, own.last_ticks));
    }
}

TEST_CASE("calls that come later are added up as they come") {
    CollectiveEntry call{};
    call.kind = OpKind::kAllReduce;
    call.datatype = Datatype::kFloat32;
    call.count = 10;
    StepCalls all{}, first{}, second{};
    for (uint64_t i = 0; i < 6; ++i) {
        call.entered_ticks = 1000 + 100 * i;
        call.returned_ticks = call.entered_ticks + i;
        call.gpu_started_ticks = i == 2 ? call.returned_ticks : 0;
        call.gpu_finished_ticks = i == 2 ? call.returned_ticks + 50 : 0;
        add_call(all, call);
        add_call(i < 2 ? first : second, call);
    }
    add_sum(first, second);
    for (const StepCalls& sum : {all, first}) {
        CHECK(sum.calls == 6);
        CHECK(sum.bytes == 240);
        CHECK(sum.host_ticks == 15);
        CHECK(sum.device_ticks == 50);
        CHECK(sum.timed_calls == 1);
        CHECK(sum.longest_ticks == 50);
        CHECK(sum.entered_ticks() == 1250);
    }
    call.flags = kCaptured;
    add_call(all, call);
    CHECK(all.calls == 6);
    all.calls = UINT64_MAX;
    all.after_ticks = uint64_t{1} << 63;
    CHECK(all.entered_ticks() == 1000);
}

// Four kinds of calls in each step; what cannot be foretold is how long they took and when they came.
TEST_CASE("sums by communicator and operation take few bytes") {
    std::mt19937_64 random(7);
    std::vector<StepCommunicator> communicators = {{0x1234567890abcdef, 8, 1}, {0xfedcba0987654321, 64, 2}};
    std::vector<StepSum> steps;
    std::vector<StepCalls> calls;
    const auto about = [&random](uint64_t ticks) { return ticks * (900 + random() % 200) / 1000; };
    uint64_t now = uint64_t{1} << 50;
    for (int64_t step = 0; step < 500; ++step, now += about(1'000'000'000)) {
        steps.push_back({step, 200, 200 << 20, about(5'000'000), about(300'000'000), 200, now, now + 900'000'000});
        for (uint64_t i = 0; i < 4; ++i) {
            calls.push_back({step, communicators[i % 2].id, i < 2 ? OpKind::kAllGather : OpKind::kReduceScatter, 50,
                             50 << 20, about(1'000'000), about(75'000'000), 50, about(2'000'000), now,
                             50 * about(400'000'000)});
        }
    }
    Writer without, with;
    without.sums = {0, 0, steps};
    with.sums = {0, 0, steps, calls, communicators};
    without.add(0, {});
    with.add(0, {});
    const double bytes = static_cast<double>(with.file.size() - without.file.size()) / 500;
    MESSAGE("of a step: ", static_cast<double>(without.file.size()) / 500, " bytes, and by communicator ", bytes);
    CHECK(bytes < 30);
}

TEST_CASE("a block is a ring") {
    Writer writer;
    std::vector<MarkerEntry> markers;
    for (uint64_t i = 0; i < 100; ++i) {
        markers.push_back(marker(MarkerKind::kEvent, 1 + static_cast<uint32_t>(i % 3), 1000 + i));
    }
    markers.front().site = 5;
    writer.add(777, markers);
    const auto index = index_journal(writer.file);
    REQUIRE(index);
    const MarkerBlock block = block_of(writer.file, index->parts.front());
    std::vector<std::byte> memory;
    const auto image = image_of(block, memory);
    REQUIRE(image);
    uint64_t next = 777;
    const RingLosses losses = image->for_each_marker([&](uint64_t ticket, const MarkerEntry& entry) {
        CHECK(ticket == next++);
        CHECK(image->text(entry.name) == "text " + std::to_string(1 + (ticket - 777) % 3));
    });
    CHECK(next == 877);
    CHECK(losses.torn == 0);
    CHECK(image->text(image->marker_site(1).place) == "place 5");
}

TEST_CASE("spans take few bytes") {
    Writer writer;
    std::mt19937_64 random(7);
    std::vector<MarkerEntry> markers;
    uint64_t now = uint64_t{1} << 50;
    for (uint32_t span = 1; markers.size() < 4000; ++span) {
        MarkerEntry begin = marker(MarkerKind::kSpanBegin, 1 + span % 10, now += 20'000'000 + random() % 2'000'000);
        begin.span = span;
        begin.step = span / 10;
        MarkerEntry end = begin;
        end.kind = MarkerKind::kSpanEnd;
        end.ticks = now += 10'000'000 + random() % 2'000'000;
        end.value = begin.ticks;
        markers.push_back(begin);
        markers.push_back(end);
    }
    writer.add(0, markers);
    // One percent of what two records of 544 bytes take.
    CHECK(writer.file.size() < 11 * markers.size() / 2);
}

TEST_CASE("more than a block holds") {
    Writer writer;
    CHECK(writer.add(0, random_markers(5000, 2)) == kJournalBlockMarkers);
    std::vector<MarkerEntry> names;
    for (uint32_t i = 0; i < kJournalBlockMarkers; ++i) {
        names.push_back(marker(MarkerKind::kLabel, 2 * i + 1, i));
        names.back().text = 2 * i + 2;
    }
    const size_t fit = writer.add(0, names);
    CHECK(fit >= kJournalBlockTexts / 2 - 3);
    CHECK(fit < names.size());
    CHECK(index_journal(writer.file)->problems.empty());
}

namespace {

struct IndexRead {
    JournalIndex index;
    uint64_t read_bytes = 0;
};

// As index_journal does with a file on a disk.
IndexRead index_of(const std::vector<std::byte>& file) {
    IndexRead read;
    const auto index = index_journal(file.size(), [&](uint64_t offset_bytes, void* into, size_t size_bytes) {
        REQUIRE(offset_bytes + size_bytes <= file.size());
        std::memcpy(into, file.data() + offset_bytes, size_bytes);
        read.read_bytes += size_bytes;
        return size_bytes;
    });
    REQUIRE(index);
    read.index = *index;
    return read;
}

}  // namespace

TEST_CASE("an index tells the same as its blocks, and of which steps they are") {
    Writer writer;
    std::vector<StepSum> sums = {{3, 1, 1, 1, 1, 1, 1, 1}};
    for (uint64_t block = 0; block < 200; ++block) {
        std::vector<MarkerEntry> markers = random_markers(500, static_cast<uint32_t>(block));
        for (MarkerEntry& entry : markers) {
            entry.kind = MarkerKind::kEvent;
            entry.step = static_cast<int64_t>(10 * block + 5);
        }
        markers.back().kind = MarkerKind::kStep;
        markers.back().value = 10 * block + 9;
        writer.sums = block == 7 ? StepSums{40, 41, sums} : StepSums{};
        writer.add(500 * block, markers);
    }
    writer.sums = {};
    writer.add(100'000, {});
    const IndexRead blocks = index_of(writer.file);
    const size_t without_bytes = writer.file.size();
    const IndexRead indexed = index_of(writer.indexed());
    CHECK(blocks.index.problems.empty());
    CHECK(indexed.index.problems.empty());
    CHECK(blocks.index.processes == indexed.index.processes);
    REQUIRE(indexed.index.parts.size() == 201);
    REQUIRE(blocks.index.parts.size() == 201);
    for (size_t i = 0; i < 201; ++i) {
        CAPTURE(i);
        const JournalPart& part = indexed.index.parts[i];
        const JournalPart& block = blocks.index.parts[i];
        CHECK(part.first_ticket == block.first_ticket);
        CHECK(part.markers == block.markers);
        CHECK(part.first_call == block.first_call);
        CHECK(part.next_call == block.next_call);
        CHECK(part.size_bytes == block.size_bytes);
        CHECK(block.overlaps(INT64_MIN, INT64_MIN));
        const auto first = static_cast<int64_t>(10 * i);
        CHECK(part.overlaps(first + 5, first + 5) == (i < 200));
        CHECK(part.overlaps(first + 9, first + 9) == (i < 200));
        CHECK_FALSE(part.overlaps(first + 10, first + 100));
        CHECK(part.overlaps(0, 4) == (i == 7));
        const auto bytes = std::span(writer.file).subspan(part.offset_bytes, part.size_bytes);
        CHECK(read_block(bytes, indexed.index.processes[0], part));
        JournalPart other = part;
        ++other.first_ticket;
        CHECK_FALSE(read_block(bytes, indexed.index.processes[0], other));
        CHECK_FALSE(read_block(bytes, {"boot", 4711, 98}, part));
    }
    CHECK(writer.file.size() - without_bytes < without_bytes / 200);
    CHECK(blocks.read_bytes >= without_bytes);
    CHECK(indexed.read_bytes < without_bytes / 100);
}

TEST_CASE("an index that is full says so") {
    Writer writer;
    RingHeader of = header();
    for (uint32_t i = 0; i < kJournalIndexBlocks; ++i) {
        CHECK_FALSE(writer.index().is_full());
        BlockRow row{};
        row.first_ticket = row.markers = row.first_call = row.next_call = UINT64_MAX;
        row.note_no_steps();
        writer.index().add(of, row, UINT32_MAX);
    }
    CHECK(writer.index().is_full());
    CHECK(!writer.index().pack().empty());
    writer.index().clear();
    std::memset(of.boot_id, 'b', sizeof(of.boot_id));
    for (uint32_t i = 0; i < kJournalIndexProcesses; ++i) {
        CHECK_FALSE(writer.index().is_full());
        of.pid = -static_cast<int32_t>(i);
        of.pid_start_ticks = UINT64_MAX;
        writer.index().add(of, {}, 1);
    }
    CHECK(writer.index().is_full());
    CHECK(!writer.index().pack().empty());
}

TEST_CASE("a file with an index that is cut, at each byte") {
    Writer writer;
    writer.add(0, random_markers(20, 3));
    writer.add(20, random_markers(20, 4));
    const std::vector<std::byte> file = writer.indexed();
    const std::vector<JournalPart> parts = index_of(file).index.parts;
    REQUIRE(parts.size() == 2);
    for (size_t size = sizeof(DumpHeader); size < file.size(); ++size) {
        const auto index = index_journal(std::span(file).first(size));
        REQUIRE(index);
        const size_t whole = size >= parts[1].offset_bytes ? 1 : 0;
        CHECK(index->parts.size() == whole);
        CHECK(index->problems.size() == (size == sizeof(DumpHeader) ? 0 : 1));
    }
}

TEST_CASE("blocks behind a damaged index are found one by one") {
    Writer writer;
    writer.add(0, random_markers(20, 3));
    writer.add(20, random_markers(20, 4));
    const std::vector<std::byte> whole = writer.indexed();
    const size_t begin = sizeof(DumpHeader) + sizeof(SectionHeader);
    const size_t end = index_of(whole).index.parts.front().offset_bytes;
    for (size_t i = begin; i < end; ++i) {
        std::vector<std::byte> file = whole;
        file[i] ^= std::byte{0x41};
        const IndexRead read = index_of(file);
        CHECK(read.index.parts.size() == 2);
        CHECK(read.index.problems.size() == 1);
    }
}

TEST_CASE("a file that is cut, at each byte") {
    Writer writer;
    writer.add(0, random_markers(20, 3));
    const size_t first_bytes = writer.file.size();
    writer.add(20, random_markers(20, 4));
    for (size_t size = 0; size < writer.file.size(); ++size) {
        const auto index = index_journal(std::span(writer.file).first(size));
        const bool at_end = size == first_bytes || size == sizeof(DumpHeader);
        if (size < sizeof(DumpHeader)) {
            CHECK_FALSE(index);
        } else {
            REQUIRE(index);
            CHECK(index->parts.size() == (size >= first_bytes ? 1 : 0));
            CHECK(index->problems.empty() == at_end);
        }
    }
}

TEST_CASE("damage in each byte") {
    Writer writer;
    writer.add(0, random_markers(20, 5));
    for (size_t i = 0; i < writer.file.size(); ++i) {
        std::vector<std::byte> file = writer.file;
        file[i] ^= std::byte{0x41};
        if (const auto index = index_journal(file)) {
            CHECK((index->parts.empty() || !index->problems.empty()));
        }
    }
}

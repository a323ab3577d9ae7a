// Journals: what is packed is what is read; and whatever else lies in the file.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "formats/container/journal_reader.h"
#include "formats/container/journal_writer.h"
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
        return packed;
    }
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
    CHECK(part.pid == 4711);
    CHECK(part.rank == 3);
    CHECK(part.pid_start_ticks == 99);
    CHECK(part.boot_id == "boot");
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

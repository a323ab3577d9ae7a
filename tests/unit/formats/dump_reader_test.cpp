#include "formats/container/dump_reader.h"

#include <doctest/doctest.h>
#include <zstd.h>

#include <cstring>

#include "formats/ring/ring_image.h"
#include "ring_builder.h"

using namespace titan;
using namespace titan::format;
using namespace titan::synth;

namespace {

RingBuilder sample_ring() {
    RingSpec spec;
    spec.collectives = 64;
    RingBuilder ring(spec);
    const uint32_t row = ring.add_communicator(0x1234, 2, 0, "dp:0");
    for (int i = 0; i < 50; ++i) {
        ring.add_call(row, OpKind::kAllReduce).count = static_cast<uint64_t>(i);
    }
    return ring;
}

std::vector<std::byte> sample_dump() {
    return make_dump(sample_ring(), dump_meta(kEpochTicks + kSecond, "timeout", true));
}

std::string error_of(const std::vector<std::byte>& file) {
    ImageBuffer image;
    const auto dump = read_dump(file, image);
    return dump ? std::string() : dump.error().text();
}

template <typename Header>
void seal(Header& header) {
    header.check = fnv1a64(reinterpret_cast<const unsigned char*>(&header), offsetof(Header, check));
}

// A dump of one section whose header says what it likes.
std::vector<std::byte> claim(SectionKind kind, uint64_t raw_bytes, uint64_t ring_offset, const std::string& payload) {
    DumpHeader header{kDumpMagic, kDumpMajor, kDumpMinor, sizeof(DumpHeader), 0, 0};
    seal(header);
    const uint32_t stored = stored_check_of(reinterpret_cast<const unsigned char*>(payload.data()), payload.size());
    SectionHeader section{kind, stored, payload.size(), raw_bytes, ring_offset, 0};
    seal(section);
    std::vector<std::byte> file(sizeof(header) + sizeof(section) + payload.size());
    std::memcpy(file.data(), &header, sizeof(header));
    std::memcpy(file.data() + sizeof(header), &section, sizeof(section));
    std::memcpy(file.data() + sizeof(header) + sizeof(section), payload.data(), payload.size());
    return file;
}

std::string zstd_of(const std::string& raw) {
    std::string packed(ZSTD_compressBound(raw.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
    return packed;
}

}  // namespace

TEST_CASE("a dump gives back the ring to the byte, and its meta section") {
    const RingBuilder ring = sample_ring();
    ImageBuffer image;
    const auto dump = read_dump(sample_dump(), image);
    REQUIRE(dump);
    CHECK(dump->problems.empty());
    CHECK(dump->meta_json.find("\"timeout\"") != std::string::npos);
    REQUIRE(image.bytes().size() == ring.bytes().size());
    CHECK(std::memcmp(image.bytes().data(), ring.bytes().data(), ring.bytes().size()) == 0);
    CHECK(read_dump_meta(sample_dump()));
}

TEST_CASE("the frame of a dump has all but its calls, and does not look at these") {
    RingSpec spec;
    spec.collectives = 16384;
    spec.markers = 64;
    RingBuilder ring(spec);
    const uint32_t row = ring.add_communicator(0x1234, 2, 0, "dp:0");
    for (int i = 0; i < 16384; ++i) {
        ring.add_call(row, OpKind::kAllReduce);
    }
    ring.add_marker(MarkerKind::kStep).value = 7;
    std::vector<std::byte> file = make_dump(ring, dump_meta(kEpochTicks + kSecond, "timeout", true));
    file[file.size() / 2] ^= std::byte{1};
    ImageBuffer memory;
    const auto dump = read_dump(file, memory, DumpExtent::kFrame);
    REQUIRE(dump);
    CHECK(dump->problems.empty());
    CHECK(dump->meta_json.find("\"timeout\"") != std::string::npos);
    const auto frame = RingImage::open(memory.bytes());
    REQUIRE(frame);
    REQUIRE(frame->communicators().size() == 1);
    CHECK(frame->text(frame->communicators()[0].second.name) == "dp:0");
    uint64_t steps = 0;
    frame->for_each_marker([&](uint64_t, const MarkerEntry& marker) { steps += marker.value; });
    CHECK(steps == 7);
    uint64_t calls = 0;
    frame->for_each_collective([&](uint64_t, const CollectiveEntry&) { ++calls; });
    CHECK(calls < 8192);  // those beside the frame come along
    const auto whole = read_dump(file, memory);
    REQUIRE(whole);
    CHECK(whole->problems.size() == 1);
}

TEST_CASE("an image buffer is clean again for the next dump") {
    ImageBuffer image;
    REQUIRE(read_dump(sample_dump(), image));
    RingSpec small;
    RingBuilder empty(small);
    REQUIRE(read_dump(make_dump(empty, "{}"), image));
    CHECK(std::memcmp(image.bytes().data(), empty.bytes().data(), empty.bytes().size()) == 0);
}

TEST_CASE("what is no dump is refused with the reason") {
    CHECK(error_of({}).find("empty file") != std::string::npos);
    CHECK(error_of(std::vector<std::byte>(10)).find("truncated") != std::string::npos);
    CHECK(error_of(std::vector<std::byte>(100)).find("magic") != std::string::npos);
}

TEST_CASE("a newer major version is refused naming both versions and the way out") {
    auto file = sample_dump();
    DumpHeader header;
    std::memcpy(&header, file.data(), sizeof(header));
    header.major = 3;
    seal(header);
    std::memcpy(file.data(), &header, sizeof(header));
    const std::string error = error_of(file);
    CHECK(error.find("3.0") != std::string::npos);
    CHECK(error.find("1.0") != std::string::npos);
    CHECK(error.find("release that wrote it") != std::string::npos);
}

TEST_CASE("of a newer minor what is known is read: the header is longer, a section is of a new kind") {
    const auto whole = sample_dump();
    DumpHeader header;
    std::memcpy(&header, whole.data(), sizeof(header));
    header.minor = 7;
    header.header_bytes += 16;
    seal(header);
    std::vector<std::byte> newer(header.header_bytes);
    std::memcpy(newer.data(), &header, sizeof(header));
    const auto unknown = claim(SectionKind{77}, 100, 0, zstd_of(std::string(100, 'x')));
    newer.insert(newer.end(), unknown.begin() + sizeof(DumpHeader), unknown.end());
    newer.insert(newer.end(), whole.begin() + sizeof(DumpHeader), whole.end());
    const RingBuilder ring = sample_ring();
    ImageBuffer image;
    const auto dump = read_dump(newer, image);
    REQUIRE(dump);
    CHECK(dump->problems.empty());
    REQUIRE(image.bytes().size() == ring.bytes().size());
    CHECK(std::memcmp(image.bytes().data(), ring.bytes().data(), ring.bytes().size()) == 0);
}

TEST_CASE("every truncation is an error or a named problem, never silence") {
    const auto whole = sample_dump();
    size_t salvaged = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
        ImageBuffer image;
        const auto dump = read_dump(std::span(whole).first(size), image);
        if (dump) {
            ++salvaged;
            CHECK_FALSE(dump->problems.empty());
            CHECK(dump->problems.back().find("truncated") != std::string::npos);
        }
    }
    CHECK(salvaged > 0);
}

TEST_CASE("every flipped bit is found") {
    const auto whole = sample_dump();
    const RingBuilder ring = sample_ring();
    size_t unnoticed = 0;
    for (size_t place = 0; place < whole.size(); ++place) {
        auto file = whole;
        file[place] ^= std::byte{0x10};
        ImageBuffer image;
        const auto dump = read_dump(file, image);
        const bool same = dump && dump->problems.empty() &&
                          (image.bytes().size() != ring.bytes().size() ||
                           std::memcmp(image.bytes().data(), ring.bytes().data(), ring.bytes().size()) != 0);
        unnoticed += same ? 1 : 0;
    }
    CHECK(unnoticed == 0);
}

TEST_CASE("claimed sizes are not believed") {
    const std::string small = zstd_of(std::string(100, 'x'));
    CHECK(error_of(claim(SectionKind::kRing, uint64_t{1} << 62, 0, small)).find("over the limit") != std::string::npos);
    CHECK(error_of(claim(SectionKind::kRing, 100, UINT64_MAX - 50, small)).find("over the limit") != std::string::npos);
    CHECK(error_of(claim(SectionKind::kRing, 5000, 0, small)).find("its zstd frame has 100") != std::string::npos);
    CHECK(error_of(claim(SectionKind::kRing, 100, 0, "not zstd at all")).find("not a zstd frame") != std::string::npos);
    CHECK(error_of(claim(SectionKind::kMeta, 17 << 20, 0, small)).find("over the limit") != std::string::npos);
    CHECK(error_of(claim(SectionKind{77}, 100, 0, small)).find("truncated") != std::string::npos);
}

// zstd ignores some bits of its own headers; a damaged file must be called one all the same.
TEST_CASE("no flipped bit of a stored section goes unnoticed") {
    const auto whole = sample_dump();
    ImageBuffer image;
    for (size_t at = 0; at < whole.size() - sizeof(SectionHeader); ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            auto broken = whole;
            broken[at] ^= std::byte{1} << bit;
            const auto dump = read_dump(broken, image);
            const bool noticed = !dump || !dump->problems.empty();
            if (!noticed) {
                FAIL("byte " << at << ", bit " << bit);
            }
        }
    }
}

TEST_CASE("a dump whose header page came twice has the later one") {
    RingBuilder ring = sample_ring();
    const uint64_t head = ring.header().cursors[0].head;
    ring.header().cursors[0].head = head + 5;
    auto file = sample_dump();
    file.resize(file.size() - sizeof(SectionHeader));
    const std::string page = zstd_of(std::string(reinterpret_cast<const char*>(ring.bytes().data()), kHeaderBytes));
    const auto extra = claim(SectionKind::kRing, kHeaderBytes, 0, page);
    file.insert(file.end(), extra.begin() + sizeof(DumpHeader), extra.end());
    SectionHeader end{SectionKind::kEnd, 0, 0, 0, 0, 0};
    seal(end);
    const auto* bytes = reinterpret_cast<const std::byte*>(&end);
    file.insert(file.end(), bytes, bytes + sizeof(end));
    ImageBuffer image;
    const auto dump = read_dump(file, image);
    REQUIRE(dump);
    CHECK(dump->problems.empty());
    CHECK(RingImage::open(image.bytes())->header().cursors[0].head == head + 5);
}

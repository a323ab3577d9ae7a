// Samples of stacks as the ring keeps them: each stack once, the newest samples always there, nothing written beside.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "stack_samples.h"

namespace {

using namespace titan;
using format::StackTable;
using tracer::rows_of;
using tracer::StackImage;
using tracer::StackSamples;

// What sample_stacks would have taken.
class Taken {
  public:
    Taken() : memory_(StackImage::bytes()), known_(StackImage::kKnownTexts), image_(memory_.data(), known_.data()) {
        image_.header().python = image_.text("CPython 3.12");
        image_.add_module({0x1000, 0x9000, 0, 0, {}, {}}, "/bin/program");
    }
    void thread(int32_t tid, const std::vector<uint64_t>& frames, const char* function = nullptr, int line = 0) {
        format::StackThread& row = *image_.add_thread();
        row.tid = tid;
        row.name = image_.text("worker");
        size_t room = 0;
        std::copy(frames.begin(), frames.end(), image_.frame_room(room));
        image_.add_frames(row, frames.size());
        row.first_python = image_.python_count();
        if (function != nullptr) {
            image_.add_python({image_.text("train.py"), image_.text(function), line, 1, 0, 0});
            row.python_count = 1;
        }
    }
    std::span<const char> image() const { return memory_; }

  private:
    std::vector<char> memory_;
    std::vector<uint32_t> known_;
    StackImage image_;
};

struct Region {
    Region() : memory(format::kSampleImages * format::sample_image_bytes() + 64) {
        std::fill(memory.end() - 64, memory.end(), 0x55);
        REQUIRE(samples.start(memory.data()));
    }
    std::span<const char> image(uint32_t number) const {
        return std::span<const char>(memory).subspan(number * format::sample_image_bytes(),
                                                     format::sample_image_bytes());
    }
    bool begun(uint32_t number) const {
        return reinterpret_cast<const format::StacksHeader*>(image(number).data())->magic == format::kStacksMagic;
    }
    bool is_whole() const {
        return std::all_of(memory.end() - 64, memory.end(), [](char byte) { return byte == 0x55; });
    }

    std::vector<char> memory;
    StackSamples samples;
};

std::string text(std::span<const char> image, uint32_t offset) {
    return rows_of<char>(image, StackTable::kTexts).data() + offset;
}

}  // namespace

TEST_CASE("a stack is kept once, with the thread that had it") {
    Region region;
    Taken first;
    first.thread(7, {0x1100, 0x1200}, "load", 88);
    first.thread(8, {0x1100, 0x1200}, "load", 88);
    Taken second;
    second.thread(7, {0x1100, 0x1200}, "load", 88);
    second.thread(8, {0x1100, 0x1204}, "load", 88);
    second.thread(9, {});
    region.samples.add(first.image(), 100, 4);
    region.samples.add(second.image(), 200, 5);
    REQUIRE(region.begun(0));
    CHECK_FALSE(region.begun(1));
    const auto image = region.image(0);
    const auto threads = rows_of<format::StackThread>(image, StackTable::kThreads);
    REQUIRE(threads.size() == 4);
    CHECK(threads[0].tid == 7);
    CHECK(threads[2].tid == 8);
    CHECK(threads[3].frame_count == 0);
    CHECK(text(image, threads[0].name) == "worker");
    const auto samples = rows_of<format::StackSample>(image, StackTable::kSamples);
    REQUIRE(samples.size() == 5);
    CHECK(samples[2].stack == 0);
    CHECK(samples[2].ticks == 200);
    CHECK(samples[2].step == 5);
    CHECK(samples[3].stack == 2);
    const auto& python = rows_of<format::StackPython>(image, StackTable::kPython)[threads[2].first_python];
    CHECK(text(image, python.function) == "load");
    CHECK(text(image, python.file) == "train.py");
    CHECK(python.line == 88);
    CHECK(rows_of<format::StackFrame>(image, StackTable::kFrames)[threads[2].first_frame + 1].address == 0x1204);
    CHECK(rows_of<format::StackModule>(image, StackTable::kModules).size() == 1);
    CHECK(text(image, reinterpret_cast<const format::StacksHeader*>(image.data())->python) == "CPython 3.12");
}

TEST_CASE("a full image is left for the other, and the newest samples stay") {
    Region region;
    uint64_t ticks = 0;
    for (int round = 0; round < 60; ++round) {
        Taken taken;
        for (uint64_t i = 0; i < 64; ++i) {
            const std::string function = "f" + std::to_string(ticks);
            taken.thread(7, std::vector<uint64_t>(1 + i % 5 * 20, 0x1000 + ticks + i), function.c_str(), 1);
        }
        region.samples.add(taken.image(), ++ticks, 0);
        REQUIRE(region.is_whole());
    }
    REQUIRE(region.begun(0));
    REQUIRE(region.begun(1));
    uint64_t newest = 0;
    size_t kept = 0;
    for (const uint32_t number : {0u, 1u}) {
        const auto image = region.image(number);
        const auto threads = rows_of<format::StackThread>(image, StackTable::kThreads);
        for (const auto& sample : rows_of<format::StackSample>(image, StackTable::kSamples)) {
            newest = std::max(newest, sample.ticks);
            REQUIRE(sample.stack < threads.size());
            ++kept;
        }
        for (const auto& size : format::kSampleTableSizes) {
            CHECK(rows_of<char>(image, size.table).size() <= size.count);
        }
    }
    CHECK(newest == 60);
    CHECK(kept > 500);
}

TEST_CASE("the same stack fills the room for samples alone") {
    Region region;
    Taken taken;
    taken.thread(7, {0x1100});
    for (uint64_t i = 0; i < 9000; ++i) {
        region.samples.add(taken.image(), i + 1, 0);
    }
    CHECK(region.is_whole());
    CHECK(rows_of<format::StackThread>(region.image(0), StackTable::kThreads).size() == 1);
    CHECK(rows_of<format::StackSample>(region.image(0), StackTable::kSamples).back().ticks == 9000);
    CHECK(rows_of<format::StackSample>(region.image(1), StackTable::kSamples).size() == 4096);
}

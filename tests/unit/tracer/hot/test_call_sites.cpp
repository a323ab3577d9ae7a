#include <doctest/doctest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "call_sites.h"
#include "formats/ring/call_sites_image.h"

using namespace titan;

namespace {

// A region of its own; its Python frames run "code objects" of a made-up layout, which are not described.
struct Sites {
    std::vector<uint64_t> memory = std::vector<uint64_t>(format::call_sites_bytes() / 8 + 1);
    uint64_t lost = 0;
    tracer::CallPython python{};
    tracer::CallSites sites;
    std::vector<std::vector<uint64_t>> code;

    Sites() {
        sites.start(reinterpret_cast<char*>(memory.data()), format::kPythonSites, lost);
        python.runtime.layout.code_file = 8;
        python.runtime.layout.code_name = 16;
        python.runtime.layout.code_first_line = 24;
        sites.set_python(&python);
    }

    format::CallSitesImage image() const {
        return format::CallSitesImage(std::as_bytes(std::span(memory)).first(format::call_sites_bytes()));
    }

    uint32_t intern(uint64_t hash, const std::vector<tracer::python::Frame>& frames = {}) {
        return sites.intern(
            {.hash = hash, .python = frames.data(), .python_count = static_cast<uint32_t>(frames.size())});
    }
};

tracer::python::Frame frame_of(const uint64_t* code, int32_t offset, bool is_entry = false) {
    tracer::python::Frame frame;
    frame.code = reinterpret_cast<uint64_t>(code);
    frame.offset = offset;
    frame.is_entry = is_entry;
    return frame;
}

}  // namespace

TEST_CASE("one stack has one number, and its uses are counted") {
    Sites made;
    const uint64_t code[4] = {0, 1, 2, 3};
    const uint32_t first = made.intern(77, {frame_of(code, 10), frame_of(code, 20, true)});
    CHECK(first != 0);
    CHECK(made.intern(77) == first);
    CHECK(made.intern(78, {frame_of(code, 10)}) != first);
    const auto stack = made.image().stack(first);
    REQUIRE(stack);
    REQUIRE(stack->python.size() == 2);
    CHECK(stack->python[0].place.key != stack->python[1].place.key);
    CHECK((!stack->python[0].is_entry && stack->python[1].is_entry));
    std::set<uint64_t> uses;
    for (const auto& record : made.image().stacks()) {
        uses.insert(record.uses);
    }
    CHECK(uses == std::set<uint64_t>{1, 2});
    CHECK(made.lost == 0);
}

TEST_CASE("stacks whose hashes fall into one place are told apart") {
    Sites made;
    const uint32_t a = made.intern(5);
    const uint32_t b = made.intern(5 + (uint64_t{1} << 40));
    CHECK(a != b);
    CHECK(made.intern(5) == a);
    CHECK(made.intern(5 + (uint64_t{1} << 40)) == b);
}

TEST_CASE("equal places of different stacks are kept once") {
    Sites made;
    const uint64_t code[4] = {0, 1, 2, 3};
    const auto one = made.image().stack(made.intern(1, {frame_of(code, 2), frame_of(code, 4)}));
    const auto two = made.image().stack(made.intern(2, {frame_of(code, 6), frame_of(code, 4)}));
    REQUIRE((one && two));
    CHECK(one->python[1].place.key == two->python[1].place.key);
    CHECK(one->python[0].place.key != two->python[0].place.key);
    CHECK(made.image().header().cursors[static_cast<size_t>(format::CallSiteTable::kPlaces)].head == 3);
}

TEST_CASE("code that takes the place of freed code is another place") {
    Sites made;
    uint64_t code[4] = {0, 1, 2, 3};
    const auto before = made.image().stack(made.intern(1, {frame_of(code, 2)}));
    code[3] = 9;  // its first line
    const auto after = made.image().stack(made.intern(2, {frame_of(code, 2)}));
    REQUIRE((before && after));
    CHECK(before->python[0].place.key != after->python[0].place.key);
}

TEST_CASE("full tables lose stacks, count them, and keep what they have") {
    Sites made;
    const uint64_t code[4] = {0, 1, 2, 3};
    uint32_t found = 0;
    uint32_t lost = 0;
    for (uint64_t i = 1; i <= 20'000; ++i) {
        const uint64_t hash = i * 0x9E3779B97F4A7C15;
        const uint32_t number = made.intern(hash, {frame_of(code, static_cast<int32_t>(i)), frame_of(code, 1)});
        number != 0 ? ++found : ++lost;
    }
    CHECK(found > 2000);
    CHECK(made.lost == lost);
    CHECK(made.image().header().dropped == lost);
    CHECK(made.image().stacks().size() == found);
    CHECK(made.intern(0x9E3779B97F4A7C15) != 0);
}

TEST_CASE("frames that find no room are cut off, and said to be") {
    Sites made;
    const uint64_t code[4] = {0, 1, 2, 3};
    const std::vector<tracer::python::Frame> deep(tracer::kMaxCallFrames, frame_of(code, 1));
    uint32_t last = 0;
    for (uint64_t i = 1; i <= 2000; ++i) {
        last = made.intern(i * 0x9E3779B97F4A7C15, deep);
    }
    const auto stack = made.image().stack(last);
    REQUIRE(stack);
    CHECK(stack->python.size() < deep.size());
    CHECK(stack->python_cut);
}

TEST_CASE("threads that meet over new stacks agree on their numbers") {
    Sites made;
    constexpr int kThreads = 4;
    constexpr uint64_t kStacks = 500;
    const std::vector<std::vector<uint64_t>> code(64, {0, 1, 2, 3});
    std::vector<std::vector<uint32_t>> numbers(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (uint64_t i = 1; i <= kStacks; ++i) {
                numbers[t].push_back(
                    made.intern(i * 0x9E3779B97F4A7C15,
                                {frame_of(code[i % 64].data(), 1), frame_of(code[0].data(), static_cast<int32_t>(i))}));
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (int t = 1; t < kThreads; ++t) {
        CHECK(numbers[t] == numbers[0]);
    }
    uint64_t uses = 0;
    for (const auto& record : made.image().stacks()) {
        uses += record.uses;
        CHECK(record.python_count == 2);
    }
    CHECK(uses == kThreads * kStacks);
    CHECK(made.image().stacks().size() == kStacks);
}

TEST_CASE("a damaged region gives nothing that is not there") {
    Sites made;
    const uint64_t code[4] = {0, 1, 2, 3};
    const uint32_t number = made.intern(77, {frame_of(code, 10)});
    for (size_t word = 0; word < sizeof(format::CallSitesHeader) / 8; ++word) {
        const uint64_t was = std::exchange(made.memory[word], UINT64_MAX);
        made.image().stack(number);
        made.image().stacks();
        made.image().modules();
        made.image().text(1);
        made.memory[word] = was;
    }
    CHECK(made.image().stack(number));
    const std::span<const std::byte> whole = std::as_bytes(std::span(made.memory));
    for (const size_t bytes : {size_t{0}, size_t{8}, sizeof(format::CallSitesHeader), size_t{2048}}) {
        CHECK(!format::CallSitesImage(whole.first(bytes)).stack(number));
    }
}

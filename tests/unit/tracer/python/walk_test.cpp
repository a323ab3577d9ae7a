#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

#include "code_place.h"
#include "fake_memory.h"
#include "frames.h"
#include "thread_states.h"

using namespace titan::tracer::python;

namespace {

struct Version {
    uint32_t minor;
    bool free_threaded;
};
constexpr Version kVersions[] = {{9, false}, {10, false}, {11, false}, {12, false}, {13, false},
                                 {13, true}, {14, false}, {14, true},  {15, false}};

// A line table of one entry, line 3 after the first, for the first 16 bytes of code.
std::string table_for(const Layout& layout) {
    switch (layout.lines) {
        case LineTable::kLnotab: return std::string("\0\3", 2);
        case LineTable::kRanges: return std::string("\20\3", 2);
        case LineTable::kLocations: return std::string("\xEF\6", 2);
    }
    return {};
}

struct Stack {
    Frame frames[64];
    Walk walked;

    Stack(const FakePython& python, size_t thread, uint32_t capacity = 64)
        : walked(walk(python.memory.reader(), python.runtime, python.threads[thread], frames, capacity)) {}
};

// Three Python frames in two native runs; the innermost run has two.
FakePython two_runs(Version version) {
    FakePython python(version.minor, version.free_threaded);
    const std::string table = table_for(python.runtime.layout);
    const uint64_t thread = python.add_thread(11);
    python.add_frame(thread, python.code("a.py", "inner", 10, table), 6);
    python.add_frame(thread, python.code("a.py", "middle", 20, table), 8, 1, true);
    if (python.runtime.layout.frames == FrameStyle::kShimFrames) {
        python.add_frame(thread, python.code("", "", 0, ""), 0, 3);
    }
    python.add_frame(thread, python.code("b.py", "outer", 30, table), 10, 0, true);
    if (python.runtime.layout.frames == FrameStyle::kShimFrames) {
        python.add_frame(thread, python.code("", "", 0, ""), 0, version.minor >= 14 ? 3 : 3);
    }
    if (python.runtime.layout.has_base_frame) {
        python.add_frame(thread, 0, 0, 3);
    }
    return python;
}

}  // namespace

TEST_CASE("frames of every version are walked and described") {
    for (const Version version : kVersions) {
        CAPTURE(version.minor);
        CAPTURE(version.free_threaded);
        const FakePython python = two_runs(version);
        const Stack stack(python, 0);
        REQUIRE(stack.walked.count == 3);
        CHECK(stack.walked.cut == Cut::kNone);
        CHECK(stack.walked.bare_runs == 0);
        const bool each = python.runtime.layout.frames <= FrameStyle::kUnitIndex;
        constexpr const char* kNames[] = {"inner", "middle", "outer"};
        for (int i = 0; i < 3; ++i) {
            char file[16], name[16];
            Place place;
            REQUIRE(describe(python.memory.reader(), python.runtime, stack.frames[i].code, stack.frames[i].offset, file,
                             sizeof(file), name, sizeof(name), place));
            CHECK(std::string(name) == kNames[i]);
            CHECK(place.line == (i + 1) * 10 + 3);
            CHECK(stack.frames[i].offset == 6 + 2 * i);
            CHECK(stack.frames[i].is_entry == (each || i > 0));
            CHECK(stack.frames[i].bare_runs == 0);
        }
    }
}

TEST_CASE("a frame that has not begun is left out, and the native run around it is not lost") {
    FakePython python(12);
    const uint64_t thread = python.add_thread(1);
    const uint64_t code = python.code("a.py", "f", 1, table_for(python.runtime.layout));
    python.add_frame(thread, code, 0);  // not begun
    python.add_frame(thread, 0, 0, 3);
    python.add_frame(thread, code, 6);
    python.add_frame(thread, code, 2);  // not begun, outermost of its run
    python.add_frame(thread, 0, 0, 3);
    python.add_frame(thread, code, 0, 1);  // a generator's: it has always begun
    python.add_frame(thread, 0, 0, 3);
    python.add_frame(thread, 0, 0, 3);
    const Stack stack(python, 0);
    REQUIRE(stack.walked.count == 2);
    CHECK(stack.frames[0].bare_runs == 1);
    CHECK(stack.frames[0].is_entry);
    CHECK(stack.frames[1].is_entry);
    CHECK(stack.walked.bare_runs == 1);
}

TEST_CASE("a thread's own copy of the code is where its instruction lies") {
    FakePython python(14, true);
    const uint64_t thread = python.add_thread(1);
    const uint64_t code = python.code("a.py", "f", 1, table_for(python.runtime.layout));
    const uint64_t copies = python.memory.take(64), copy = python.memory.take(256);
    python.memory.set(code + python.runtime.layout.code_copies, copies);
    python.memory.set(copies, int64_t{3});
    python.memory.set(copies + 8 + 8 * 2, copy);
    const uint64_t frame = python.add_frame(thread, code | 1, 0);  // tagged, as references on the stack are
    python.memory.set(frame + python.runtime.layout.frame_copy_index, int32_t{2});
    python.memory.set(frame + python.runtime.layout.frame_instruction, copy + 8);
    const Stack stack(python, 0);
    REQUIRE(stack.walked.count == 1);
    CHECK(stack.frames[0].offset == 8);
    CHECK(stack.frames[0].code == code);
}

TEST_CASE("a walk that ends within a native run is torn: a generator that ends has lost its link already") {
    for (const Version version : kVersions) {
        FakePython python = two_runs(version);
        if (python.runtime.layout.frames < FrameStyle::kEntryFlag) {
            continue;  // each frame is a native run of its own
        }
        CAPTURE(version.minor);
        python.set_previous(python.frames[0], 0);
        const Stack stack(python, 0);
        CHECK(stack.walked.count == 1);
        CHECK(stack.walked.cut == Cut::kTorn);
    }
}

TEST_CASE("walks end: no room, cycles, what is no frame") {
    FakePython python = two_runs({12, false});
    const Stack small(python, 0, 2);
    CHECK(small.walked.count == 2);
    CHECK(small.walked.cut == Cut::kRoom);
    const Stack none(python, 0, 0);
    CHECK(none.walked.count == 0);
    CHECK(none.walked.cut == Cut::kRoom);

    python.set_previous(python.frames.back(), python.frames.front());
    CHECK(Stack(python, 0).walked.cut == Cut::kTorn);
    python.set_previous(python.frames[1], python.frames[1]);
    CHECK(Stack(python, 0).walked.cut == Cut::kTorn);
    python.set_previous(python.frames[1], 0xdead0000);
    CHECK(Stack(python, 0).walked.cut == Cut::kTorn);
    CHECK(Stack(python, 0).walked.count == 2);
    python.set_previous(python.frames[1], python.interpreter);
    CHECK(Stack(python, 0).walked.cut == Cut::kTorn);
}

TEST_CASE("thread states of all interpreters, and lists that do not hold together") {
    FakePython python(11);
    for (uint64_t id = 1; id <= 5; ++id) {
        python.add_thread(id);
    }
    const Layout& layout = python.runtime.layout;
    ThreadState threads[16];
    ThreadList list = list_threads(python.memory.reader(), python.runtime, threads, 16);
    CHECK(list.count == 5);
    CHECK_FALSE(list.torn);
    CHECK(threads[4].native_id == 5);
    CHECK(threads[4].pthread == 1005);
    CHECK(threads[4].interpreter_id == 7);
    list = list_threads(python.memory.reader(), python.runtime, threads, 3);
    CHECK(list.count == 3);
    CHECK(list.more);

    python.memory.set(python.threads[4] + layout.thread_next, python.threads[1]);
    list = list_threads(python.memory.reader(), python.runtime, threads, 16);
    CHECK(list.torn);
    python.memory.set(python.threads[4] + layout.thread_next, uint64_t{0});
    python.memory.set(python.threads[2] + layout.thread_interpreter, uint64_t{0});  // freed and used again
    list = list_threads(python.memory.reader(), python.runtime, threads, 16);
    CHECK(list.torn);
    CHECK(list.count == 2);
    python.memory.set(python.interpreter + layout.interpreter_next, python.interpreter);
    CHECK(list_threads(python.memory.reader(), python.runtime, threads, 16).torn);
}

TEST_CASE("any damage: bounded time, bounded text, no wild write") {
    std::mt19937_64 random(20260101);
    constexpr int kRounds = 1500;
    for (const Version version : kVersions) {
        CAPTURE(version.minor);
        FakePython python = two_runs(version);
        python.add_thread(12);
        python.add_frame(python.threads[1], python.code("c.py", "alone", 5, table_for(python.runtime.layout)), 6, 0,
                         true);
        const std::vector<char> whole = python.memory.bytes();
        uint64_t most_reads = 0;
        for (int round = 0; round < kRounds; ++round) {
            python.memory.bytes() = whole;
            for (uint64_t damage = random() % 6 + 1; damage > 0; damage--) {
                const size_t at = random() % (whole.size() / 8) * 8;
                // A pointer into the structures goes further than a random number; small numbers damage sizes.
                const uint64_t values[] = {random(), FakeMemory::kBase + random() % whole.size() / 8 * 8,
                                           random() % 256, ~uint64_t{0} >> random() % 64};
                std::memcpy(python.memory.bytes().data() + at, &values[random() % 4], 8);
            }
            python.memory.reads = 0;
            ThreadState threads[8];
            const ThreadList list = list_threads(python.memory.reader(), python.runtime, threads, 8);
            REQUIRE(list.count <= 8);
            for (uint32_t t = 0; t < list.count; ++t) {
                Frame frames[12];
                const Walk walked = walk(python.memory.reader(), python.runtime, threads[t].address, frames, 10);
                REQUIRE(walked.count <= 10);
                for (uint32_t f = 0; f < walked.count; ++f) {
                    char file[24], name[24];
                    std::memset(file, 'x', sizeof(file));
                    std::memset(name, 'x', sizeof(name));
                    Place place;
                    describe(python.memory.reader(), python.runtime, frames[f].code, frames[f].offset, file, 16, name,
                             16, place);
                    REQUIRE(place.file_bytes < 16);
                    REQUIRE(place.name_bytes < 16);
                    REQUIRE(file[16] == 'x');
                    REQUIRE(name[16] == 'x');
                }
            }
            most_reads = std::max(most_reads, python.memory.reads);
        }
        CHECK(most_reads < 5000);
    }
}

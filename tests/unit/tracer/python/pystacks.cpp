// Reads the Python stacks of another process from outside, as titan-dump does, and prints them as JSON: the eyes of
// test_stacks.py.
//
//   pystacks PID [FRAMES]      every thread's frames, at most FRAMES each
//   pystacks --loop PID TIMES  the same TIMES over, with what was seen and the longest time that one took
//   pystacks --unnamed PID     whether CPython is recognized when no file's name says its version
//   pystacks --layout MINOR    the offsets that we believe 3.MINOR has; --words MINOR those of _Py_DebugOffsets
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/maps.h"
#include "code_place.h"
#include "frames.h"
#include "thread_states.h"

using namespace titan;
using namespace titan::tracer::python;

namespace {

std::string quoted(const char* text) {
    std::string out = "\"";
    for (; *text != '\0'; ++text) {
        const auto c = static_cast<unsigned char>(*text);
        if (c == '"' || c == '\\' || c < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof(escape), "\\u%04x", c);
            out += escape;
        } else {
            out += *text;
        }
    }
    return out + "\"";
}

const char* word(Search search) {
    constexpr const char* kWords[] = {"found", "no python", "not started", "refused"};
    return kWords[static_cast<int>(search)];
}

uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void print_frame(const Memory& memory, const Runtime& runtime, const Frame& frame, bool first) {
    char file[4096], name[1024];
    Place place;
    const bool there =
        describe(memory, runtime, frame.code, frame.offset, file, sizeof(file), name, sizeof(name), place);
    std::printf("%s{\"there\":%d,\"file\":%s,\"name\":%s,\"line\":%d,\"first\":%d,\"entry\":%d,\"bare\":%d}",
                first ? "" : ",", there, quoted(there ? file : "").c_str(), quoted(there ? name : "").c_str(),
                place.line, place.first_line, frame.is_entry, frame.bare_runs);
}

int show(const Memory& plain, const Runtime& runtime, uint32_t most_frames) {
    std::vector<ThreadState> threads(4096);
    std::vector<Frame> frames(most_frames);
    const ThreadList list = list_threads(plain, runtime, threads.data(), static_cast<uint32_t>(threads.size()));
    const auto cache = std::make_unique<PageCache>(plain);
    const Memory memory = cache->memory();
    std::printf(",\"version\":%u,\"free_threaded\":%d,\"module\":%s,\"this_thread\":%d,\"torn\":%d,\"threads\":[",
                runtime.version, runtime.free_threaded, quoted(runtime.module).c_str(), runtime.this_thread_state != 0,
                list.torn);
    for (uint32_t i = 0; i < list.count; ++i) {
        const ThreadState& thread = threads[i];
        cache->forget();
        const Walk walked = walk(memory, runtime, thread.address, frames.data(), most_frames);
        std::printf(
            "%s{\"native\":%ld,\"pthread\":%lu,\"interpreter\":%ld,\"holds_gil\":%d,\"cut\":%d,\"bare\":%u,"
            "\"frames\":[",
            i == 0 ? "" : ",", static_cast<long>(thread.native_id), thread.pthread,
            static_cast<long>(thread.interpreter_id), gil_holder(plain, runtime, thread.interpreter) == thread.address,
            static_cast<int>(walked.cut), walked.bare_runs);
        for (uint32_t f = 0; f < walked.count; ++f) {
            print_frame(memory, runtime, frames[f], f == 0);
        }
        std::printf("]}");
    }
    std::printf("]");
    return 0;
}

int loop(const Memory& plain, const Runtime& runtime, int times) {
    std::vector<ThreadState> threads(256);
    std::vector<Frame> frames(64);
    uint64_t threads_seen = 0, frames_seen = 0, torn_lists = 0, torn_walks = 0, gone = 0, longest_ns = 0;
    const auto cache = std::make_unique<PageCache>(plain);
    for (int i = 0; i < times; ++i) {
        // With pages that grow old in turn with reads that are all new.
        const Memory memory = i % 2 == 0 ? plain : cache->memory();
        const uint64_t start_ns = now_ns();
        const ThreadList list = list_threads(plain, runtime, threads.data(), static_cast<uint32_t>(threads.size()));
        torn_lists += list.torn;
        threads_seen += list.count;
        for (uint32_t t = 0; t < list.count; ++t) {
            cache->forget();
            const Walk walked =
                walk(memory, runtime, threads[t].address, frames.data(), static_cast<uint32_t>(frames.size()));
            torn_walks += walked.cut == Cut::kTorn;
            frames_seen += walked.count;
            for (uint32_t f = 0; f < walked.count; ++f) {
                char file[256], name[128];
                Place place;
                gone += !describe(memory, runtime, frames[f].code, frames[f].offset, file, sizeof(file), name,
                                  sizeof(name), place);
            }
        }
        longest_ns = std::max(longest_ns, now_ns() - start_ns);
    }
    std::printf(
        ",\"times\":%d,\"threads\":%lu,\"frames\":%lu,\"torn_lists\":%lu,\"torn_walks\":%lu,\"gone\":%lu,\"longest_"
        "us\":%lu",
        times, threads_seen, frames_seen, torn_lists, torn_walks, gone, longest_ns / 1000);
    return 0;
}

int print_layout(uint32_t minor) {
    Layout layout;
    if (!layout_of_version(minor, layout)) {
        return 1;
    }
#define TITAN_PYTHON_OFFSET(field, ...) std::printf("%s %u\n", #field, layout.field);
#include "layouts.def"
    return 0;
}

int print_words(uint32_t minor) {
    const struct {
        const char* field;
        int by_version[3];
    } words[] = {
#define TITAN_PYTHON_WORD(field, ...) {#field, {__VA_ARGS__}},
#include "debug_offsets.def"
    };
    if (minor < 13 || minor > 15) {
        return 1;
    }
    for (const auto& row : words) {
        std::printf("%s %d\n", row.field, row.by_version[minor - 13]);
    }
    return 0;
}

// What such a runtime's own words become: fills each told word with its offset, as `field word offset` lines on stdin
// say.
int derive(uint32_t minor, bool free_threaded) {
    uint64_t words[kDebugWords] = {};
    unsigned index;
    unsigned long value;
    while (std::scanf("%u %lu", &index, &value) == 2) {
        if (index < kDebugWords) {
            words[index] = value;
        }
    }
    Layout layout;
    if (!layout_of_debug_offsets(minor, words, free_threaded, layout)) {
        return 1;
    }
#define TITAN_PYTHON_OFFSET(field, ...) std::printf("%s %u\n", #field, layout.field);
#include "layouts.def"
    return 0;
}

// What is found when files' names tell nothing, as in a program that CPython is linked into: the version by its
// constants.
int unnamed(const Memory& memory) {
    char lines[8192], room[kFindRoomBytes], reason[kReasonBytes] = "";
    MapsReader maps(memory.pid, lines, sizeof(lines));
    Search best = Search::kNoPython;
    Runtime runtime;
    for (Mapping mapping; best != Search::kFound && maps.next(mapping);) {
        const Search found = mapping.file_offset == 0 && mapping.path[0] == '/'
                                 ? examine_module(memory, mapping.start, "/opt/program", room, runtime, reason)
                                 : Search::kNoPython;
        best = found == Search::kNoPython ? best : found;
    }
    std::printf("{\"search\":\"%s\",\"reason\":%s,\"version\":%u}\n", word(best), quoted(reason).c_str(),
                runtime.version);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (argc > 2 && verb == "--layout") {
        return print_layout(static_cast<uint32_t>(std::atoi(argv[2])));
    }
    if (argc > 2 && verb == "--words") {
        return print_words(static_cast<uint32_t>(std::atoi(argv[2])));
    }
    if (argc > 3 && verb == "--derive") {
        return derive(static_cast<uint32_t>(std::atoi(argv[2])), argv[3][0] == '1');
    }
    const bool looped = argc > 3 && verb == "--loop", nameless = argc > 2 && verb == "--unnamed";
    if (!looped && argc < 2) {
        std::fprintf(stderr, "usage: pystacks PID [FRAMES] | --loop PID TIMES | --layout MINOR | --words MINOR\n");
        return 2;
    }
    Memory memory;
    const int refused = open_memory(std::atoi(argv[looped || nameless ? 2 : 1]), memory);
    if (refused != 0) {
        std::printf("{\"search\":\"denied\",\"errno\":%d}\n", refused);
        return 0;
    }
    if (nameless) {
        return unnamed(memory);
    }
    Runtime runtime;
    char reason[kReasonBytes], room[kFindRoomBytes];
    const uint64_t start_ns = now_ns();
    const Search found = find_runtime(memory, room, runtime, reason);
    std::printf("{\"search\":\"%s\",\"reason\":%s,\"find_us\":%lu", word(found), quoted(reason).c_str(),
                (now_ns() - start_ns) / 1000);
    if (found == Search::kFound) {
        looped ? loop(memory, runtime, std::atoi(argv[3]))
               : show(memory, runtime, argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 1024);
    }
    std::printf("}\n");
    close_memory(memory);
    return 0;
}

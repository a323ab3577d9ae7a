#include "dump_children.h"

#include <string.h>

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/memory.h"
#include "base/proc_thread.h"
#include "children.h"
#include "code_place.h"
#include "control_group.h"
#include "dump_meta.h"
#include "frames.h"
#include "runtime.h"
#include "thread_states.h"

namespace titan::tracer {
namespace {

struct ChildFrame {
    char file[256];      // cut at its end
    char function[128];  // qualified where Python knows that
    int32_t line;        // 0 unknown
};

constexpr uint32_t kMostStates = 256;
constexpr uint32_t kMostWalked = 64;

struct ChildReader {
    python::Runtime runtime;
    char room[python::kFindRoomBytes];
    python::ThreadState states[kMostStates];
    python::Frame frames[kMostWalked];
};
constinit ChildReader reader{};  // of the watch thread

size_t describe_frames(const Memory& memory, uint64_t state, std::span<ChildFrame> frames) {
    const auto room = static_cast<uint32_t>(std::min<size_t>(frames.size(), kMostWalked));
    const python::Walk walked = python::walk(memory, reader.runtime, state, reader.frames, room);
    size_t count = 0;
    for (uint32_t i = 0; i < walked.count; ++i) {
        ChildFrame& frame = frames[count];
        python::Place place;
        if (python::describe(memory, reader.runtime, reader.frames[i].code, reader.frames[i].offset, frame.file,
                             sizeof(frame.file), frame.function, sizeof(frame.function), place)) {
            frame.line = place.line;
            ++count;
        }
    }
    return count;
}

// Where the main thread of a child is in its Python program, read from outside, which the system lets us do. How many
// frames were read, innermost first; 0 where it runs no Python or cannot be read.
size_t read_child_python(pid_t pid, std::span<ChildFrame> frames) {
    Memory memory;
    if (open_memory(pid, memory) != 0) {
        return 0;
    }
    size_t count = 0;
    char reason[python::kReasonBytes];
    if (python::find_runtime(memory, reader.room, reader.runtime, reason) == python::Search::kFound) {
        const uint32_t states = python::list_threads(memory, reader.runtime, reader.states, kMostStates).count;
        const auto* const main = std::find_if(reader.states, reader.states + states, [&](const auto& state) {
            return state.native_id == static_cast<uint64_t>(pid);
        });
        count = main == reader.states + states ? 0 : describe_frames(memory, main->address, frames);
    }
    close_memory(memory);
    return count;
}

constexpr size_t kMostFrames = 12;
constexpr size_t kMostTold = 64;
constexpr uint64_t kReadingNs = 200'000'000;  // for all stacks
constexpr uint32_t kLooksBetweenThreads = 10;
// A frame at its longest, each byte escaped.
constexpr size_t kWorstChildBytes = 512 + kMostFrames * 6 * (sizeof(ChildFrame::file) + sizeof(ChildFrame::function));

struct ChildrenState {
    Children children;
    uint32_t looks;
    uint64_t kills_before;  // for want of memory, when the first look was taken
    ChildFrame frames[kMostFrames];
};
constinit ChildrenState state{};

void write_text(TextWriter& json, const char* key, const char* text) {
    json.format(",\"%s\":", key);
    json_string(json, text, strlen(text));
}

void write_frames(TextWriter& json, pid_t pid) {
    const size_t count = read_child_python(pid, state.frames);
    json.text(",\"stack\":[");
    for (size_t i = 0; i < count; ++i) {
        const ChildFrame& frame = state.frames[i];
        json.text(i == 0 ? "{\"file\":" : ",{\"file\":");
        json_string(json, frame.file, strlen(frame.file));
        write_text(json, "function", frame.function);
        json.format(",\"line\":%d}", frame.line);
    }
    json.put(']');
}

void write_living(TextWriter& json, const Child& child, bool with_stack) {
    json.format("{\"pid\":%d", child.pid);
    write_text(json, "name", child.name);
    ProcThread thread;
    if (read_proc_thread(child.pid, thread, child.pid)) {
        const char of_state[] = {thread.state, '\0'};
        write_text(json, "state", of_state);
        write_text(json, "wait_channel", thread.wait_channel);
        json.format(",\"cpu_ns\":%lu", thread.cpu_ns);
    }
    if (with_stack) {
        write_frames(json, child.pid);
    }
    json.put('}');
}

void write_ended(TextWriter& json, const Child& child) {
    json.format("{\"pid\":%d", child.pid);
    write_text(json, "name", child.name);
    json.format(",\"ended_realtime_ns\":%lu", child.ended_realtime_ns);
    if (child.wait_status != kUnknownStatus) {
        json.format(",\"wait_status\":%d", child.wait_status);
    }
    json.put('}');
}

// `write` is given each of the newest children that there is room for.
template <typename Write>
void write_list(TextWriter& json, size_t capacity_bytes, const char* key, std::span<const Child> children,
                Write&& write) {
    const size_t told = children.size() < kMostTold ? children.size() : kMostTold;
    if (told == 0) {
        return;
    }
    json.format(",\"%s\":[", key);
    bool first = true;
    for (const Child& child : children.last(told)) {
        if (json.size_bytes() + kWorstChildBytes > capacity_bytes) {
            break;
        }
        json.text(first ? "" : ",");
        first = false;
        write(child);
    }
    json.put(']');
}

}  // namespace

void forget_children() { state = ChildrenState{}; }

void watch_children() {
    if (state.looks == 0) {
        state.kills_before = read_memory_events("").oom_kills;
    }
    const bool all = state.looks++ % kLooksBetweenThreads == 0;
    state.children.look(all ? Children::Ask::kAllThreads : Children::Ask::kMainThread, realtime_now_ns());
}

size_t write_children(char* out, size_t capacity_bytes, bool with_stacks) {
    TextWriter json(out, capacity_bytes);
    state.children.look(Children::Ask::kAllThreads, realtime_now_ns());
    const uint64_t began_ns = monotonic_now_ns();
    // They take little room; the stacks of many that live may take all that is left.
    write_list(json, capacity_bytes, "ended_children", state.children.ended(),
               [&](const Child& child) { write_ended(json, child); });
    write_list(json, capacity_bytes, "children", state.children.living(), [&](const Child& child) {
        write_living(json, child, with_stacks && monotonic_now_ns() - began_ns < kReadingNs);
    });
    if (!state.children.living().empty()) {
        json.format(",\"children_alive\":%zu", state.children.living().size());
    }
    const uint64_t kills = state.looks == 0 ? 0 : read_memory_events("").oom_kills;
    if (kills > state.kills_before) {
        json.format(",\"out_of_memory_kills\":%lu", kills - state.kills_before);
    }
    return json.size_bytes();
}

}  // namespace titan::tracer

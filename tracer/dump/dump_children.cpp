#include "dump_children.h"

#include <string.h>

#include "base/clock.h"
#include "base/proc_thread.h"
#include "child_python.h"
#include "json_string.h"
#include "memory_events.h"

namespace titan::tracer {
namespace {

constexpr size_t kMostFrames = 12;
constexpr size_t kMostTold = 64;
constexpr uint64_t kReadingNs = 200'000'000;  // for all stacks
constexpr uint32_t kLooksBetweenThreads = 10;
// A frame at its longest, each byte escaped.
constexpr size_t kWorstChildBytes = 512 + kMostFrames * 6 * (sizeof(ChildFrame::file) + sizeof(ChildFrame::function));

struct State {
    Children children;
    uint32_t looks;
    uint64_t kills_before;  // for want of memory, when the first look was taken
    ChildFrame frames[kMostFrames];
};
constinit State state{};

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

void forget_children() { state = State{}; }

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

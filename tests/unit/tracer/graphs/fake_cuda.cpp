#include "fake_cuda.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <map>
#include <mutex>

#include "fixture.h"
#include "session.h"
#include "tracer/graphs.h"

namespace titan::test {

namespace {

struct FakeCapture {
    uint64_t id;
    Handle graph;
    int status;
    Handle origin;
};

std::mutex lock;
std::map<Handle, FakeCapture> captures;  // by stream
uint64_t next_id = 1;
uintptr_t next_object = 0x7000'0000;
bool names_captures = true;

Handle new_object() { return reinterpret_cast<Handle>(next_object += 0x40); }

int get_capture_info(void* stream, int* status, uint64_t* id, void** graph, const void*** dependencies, size_t*) {
    if (stream == nullptr || dependencies != nullptr) {
        return 906;  // cudaErrorStreamCaptureImplicit: what the legacy stream answers while others are captured
    }
    const std::lock_guard guard(lock);
    const auto found = captures.find(stream);
    *status = found == captures.end() ? tracer::kCaptureStatusNone : found->second.status;
    if (*status == tracer::kCaptureStatusActive) {
        *id = found->second.id;
        *graph = const_cast<void*>(found->second.graph);
    }
    return 0;
}

int is_capturing(void* stream, int* status) {
    uint64_t id;
    void* graph;
    return get_capture_info(stream, status, &id, &graph, nullptr, nullptr);
}

bool find_fake_driver(tracer::DriverApi& driver) {
    driver = {};
    driver.driver_version = [](int* version) { return *version = 13000, 0; };
    driver.stream_is_capturing = is_capturing;
    driver.stream_get_capture_info = names_captures ? get_capture_info : nullptr;
    return true;
}

// Progress on the device has tests of its own.
[[maybe_unused]] const bool installed =
    (setenv("TITANTRACE_GPU_PROGRESS", "off", 1), find_driver = find_fake_driver, true);

}  // namespace

void set_driver_names_captures(bool names) {
    names_captures = names;
    find_fake_driver(recording().driver);
}

Handle new_stream() {
    const std::lock_guard guard(lock);
    return new_object();
}

Handle new_graph() { return new_stream(); }

void begin_capture_unseen(Handle stream) {
    const std::lock_guard guard(lock);
    captures[stream] = {next_id++, new_object(), tracer::kCaptureStatusActive, stream};
}

void begin_capture(Handle stream, Handle into) {
    begin_capture_unseen(stream);
    if (into != nullptr) {
        const std::lock_guard guard(lock);
        captures[stream].graph = into;
    }
    tracer::note_capture_begun(stream, into);
}

void fork_capture(Handle from, Handle to) {
    const std::lock_guard guard(lock);
    captures[to] = captures[from];
}

void invalidate_capture(Handle stream) {
    const std::lock_guard guard(lock);
    const uint64_t id = captures[stream].id;
    for (auto& [handle, capture] : captures) {
        capture.status = capture.id == id ? 2 : capture.status;
    }
}

Handle end_capture(Handle stream) {
    Handle graph;
    {
        const std::lock_guard guard(lock);
        const FakeCapture ended = captures.at(stream);
        graph = ended.status == tracer::kCaptureStatusActive ? ended.graph : nullptr;
        std::erase_if(captures, [&](const auto& row) { return row.second.id == ended.id; });
    }
    tracer::note_capture_ended(stream, graph);
    return graph;
}

Handle instantiate(Handle graph) {
    const Handle exec = new_graph();
    instantiate_as(exec, graph);
    return exec;
}

void instantiate_as(Handle exec, Handle graph) { tracer::note_graph_instantiated(exec, graph); }

Handle add_child(Handle graph, Handle child) {
    const Handle node = new_graph();
    tracer::note_child_added(graph, node, child);
    return node;
}

std::vector<format::CollectiveEntry> launch(Handle exec, Handle stream, int result) {
    tracer::Session& session = recording();
    tracer::Call call;
    REQUIRE(tracer::enter_graph_launch(call, kAnyApi, exec, stream));
    const bool replays = call.replayed != 0 && call.replayed != UINT32_MAX;
    const uint64_t first = call.ticket;
    const uint64_t count = replays ? call.replayed : 0;
    tracer::leave_graph_launch(call, result);
    std::vector<format::CollectiveEntry> entries;
    for (uint64_t i = 0; i < count; ++i) {
        const format::CollectiveEntry* const entry = session.collectives.find(first + i);
        REQUIRE(entry != nullptr);
        entries.push_back(*entry);
    }
    return entries;
}

format::CollectiveEntry& all_reduce(void* comm, Handle stream, size_t count, int result) {
    return call({.kind = format::OpKind::kAllReduce,
                 .comm = comm,
                 .count = count,
                 .datatype = 7,
                 .reduction = 0,
                 .stream = stream},
                result);
}

}  // namespace titan::test

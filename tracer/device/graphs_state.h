// Tracks the open captures, and the collectives in each graph and each executable graph.
//
// Memory is bounded: kMaxCaptures captures at a time, about 7000 graphs and as many executable graphs *with
// collectives*, and the arena of CapturedLists. A graph that finds no room is counted (Loss::kGraphsUntracked) and its
// launches are not expanded: half a list would give wrong sequence numbers.
#pragma once

#include <atomic>
#include <cstdint>

#include "formats/layout/ring_layout.h"
#include "graphs_templates.h"
#include "handle_table.h"
#include "recording.h"

namespace titan::tracer {

inline constexpr uintptr_t kLegacyStream = 1;     // cudaStreamLegacy
inline constexpr uintptr_t kPerThreadStream = 2;  // cudaStreamPerThread

inline constexpr uint32_t kNotCaptured = 0;
inline constexpr uint32_t kUnknownCapture = UINT32_MAX;  // captured, but nobody can say into what

class Graphs {
  public:
    // hot, any-thread.
    bool any_capture() const { return open_.load(std::memory_order_relaxed) != 0; }
    bool knows_captured(const void* stream) const;
    const CapturedCalls* of_exec(const void* exec) const { return execs_.find(exec); }
    uint64_t next_replay() { return replays_.fetch_add(1, std::memory_order_relaxed) + 1; }

    // The rest expects a ColdLock.
    //
    // The driver's answer about a capture; id 0 and graph null if it has none.
    struct Capture {
        uint64_t id;
        const void* graph;
    };
    void begin_capture(const void* stream, const void* into, const Capture& capture);
    // Number of the capture that `stream` is part of; it gets one with its first collective.
    uint32_t join_capture(Recording& recording, const void* stream, const Capture& capture);
    void remember(Recording& recording, const format::CollectiveEntry& entry);
    void remember_launch(Recording& recording, uint32_t capture, const void* exec);
    void end_capture(Recording& recording, const void* stream, const void* graph);

    void clone(Recording& recording, const void* clone, const void* original);
    void add_child(Recording& recording, const void* graph, const void* node, const void* child);
    void add_conditional_body(Recording& recording, const void* body);
    void destroy_node(Recording& recording, const void* node);
    void set_exec(Recording& recording, const void* exec, const void* graph);
    void set_exec_child(Recording& recording, const void* exec, const void* node, const void* child);
    void destroy_graph(const void* graph) { release(graphs_.forget(graph)); }
    void destroy_exec(const void* exec) { release(execs_.forget(exec)); }

  private:
    static constexpr uint32_t kMaxCaptures = 64;
    static constexpr uint32_t kMaxCapturedStreams = 64;

    struct OpenCapture {
        bool used;
        bool begin_seen;
        uint32_t number;      // 0 until its first collective
        uint64_t id;          // the driver's, 0 unknown
        uintptr_t origin;     // key of the stream that it was begun on, 0 unknown
        const void* graph;    // the graph being built, null unknown
        const void* into;     // begun with an existing graph
        uint64_t last_group;  // newest group of the process
        CapturedCalls* calls;
    };
    struct CapturedStream {
        std::atomic<uintptr_t> stream;
        OpenCapture* capture;
    };

    static uintptr_t key_of(const void* stream);
    OpenCapture* find_capture(uintptr_t stream, const Capture& capture);
    OpenCapture* take_capture();
    void close_capture(OpenCapture& capture);
    void add_stream(uintptr_t stream, OpenCapture& capture);
    OpenCapture* numbered(uint32_t number);
    void bind(Recording& recording, HandleTable<CapturedCalls>& table, const void* handle, CapturedCalls* calls);
    void append(Recording& recording, CapturedCalls*& list, const CapturedCalls& more, uint64_t node);
    CapturedCalls* replaced(Recording& recording, const CapturedCalls& list, uint64_t node, const CapturedCalls* by);
    CapturedCalls* shared(CapturedCalls* list);
    bool is_mark(const CapturedCalls* list) const { return list == &untracked_ || list == &body_; }
    void release(CapturedCalls* list);

    std::atomic<uint32_t> open_;
    std::atomic<uint64_t> replays_;
    uint32_t captures_seen_;
    OpenCapture captures_[kMaxCaptures];
    std::atomic<uint32_t> stream_rows_;
    CapturedStream streams_[kMaxCapturedStreams];
    CapturedLists lists_;
    HandleTable<CapturedCalls> graphs_;
    HandleTable<CapturedCalls> execs_;
    CapturedCalls untracked_;  // stands for a list that found no room
    CapturedCalls body_;       // marks the graphs inside conditional nodes
};

}  // namespace titan::tracer

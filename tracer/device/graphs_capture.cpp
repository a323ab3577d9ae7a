// Captures under way: which one a stream is part of, and what NCCL's calls have put into it. cold, except the
// questions.
#include "graphs_state.h"

namespace titan::tracer {

// Every thread has a per-thread default stream behind the same handle; and what is captured "on stream 0" is that one,
// because the legacy stream cannot be.
uintptr_t Graphs::key_of(const void* stream) {
    const auto handle = reinterpret_cast<uintptr_t>(stream);
    return handle == 0 || handle == kPerThreadStream ? reinterpret_cast<uintptr_t>(&this_nesting) : handle;
}

bool Graphs::knows_captured(const void* stream) const {
    if (!any_capture()) {
        return false;
    }
    const uintptr_t key = key_of(stream);
    const uint32_t rows = stream_rows_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < rows; ++i) {
        if (streams_[i].stream.load(std::memory_order_relaxed) == key) {
            return true;
        }
    }
    return false;
}

void Graphs::add_stream(uintptr_t stream, OpenCapture& capture) {
    const uint32_t rows = stream_rows_.load(std::memory_order_relaxed);
    CapturedStream* row = nullptr;
    for (uint32_t i = 0; i < rows; ++i) {
        const uintptr_t found = streams_[i].stream.load(std::memory_order_relaxed);
        if (found == stream) {
            streams_[i].capture = &capture;
            return;
        }
        row = found == 0 ? &streams_[i] : row;
    }
    if (row == nullptr) {
        if (rows == kMaxCapturedStreams) {
            return;
        }
        row = &streams_[rows];
        stream_rows_.store(rows + 1, std::memory_order_release);
    }
    row->capture = &capture;
    row->stream.store(stream, std::memory_order_relaxed);
}

void Graphs::close_capture(OpenCapture& capture) {
    for (CapturedStream& row : streams_) {
        if (row.capture == &capture) {
            row.stream.store(0, std::memory_order_relaxed);
            row.capture = nullptr;
        }
    }
    open_.fetch_sub(1, std::memory_order_relaxed);
    capture = {};
}

Graphs::OpenCapture* Graphs::take_capture() {
    OpenCapture* taken = nullptr;
    for (OpenCapture& capture : captures_) {
        if (!capture.used) {
            taken = &capture;
            break;
        }
        // Begun out of our sight, and perhaps ended there, too.
        if (!capture.begin_seen && (taken == nullptr || capture.number < taken->number)) {
            taken = &capture;
        }
    }
    if (taken == nullptr) {
        return nullptr;
    }
    if (taken->used) {
        release(taken->calls);
        close_capture(*taken);
    }
    taken->used = true;
    open_.fetch_add(1, std::memory_order_relaxed);
    return taken;
}

void Graphs::begin_capture(const void* stream, const void* into, const Capture& capture) {
    const uintptr_t key = key_of(stream);
    for (OpenCapture& open : captures_) {
        if (open.used && open.origin == key) {  // its end was not seen
            release(open.calls);
            close_capture(open);
        }
    }
    OpenCapture* const open = take_capture();
    if (open == nullptr) {
        return;  // counted when a collective is captured
    }
    open->begin_seen = true;
    open->id = capture.id;
    open->origin = key;
    open->graph = capture.graph;
    open->into = into;
    add_stream(key, *open);
}

// Matches by the driver's id; if either side has none, by the stream, or else as the only capture without an id.
Graphs::OpenCapture* Graphs::find_capture(uintptr_t stream, const Capture& wanted) {
    OpenCapture* nameless = nullptr;
    uint32_t nameless_count = 0;
    for (OpenCapture& capture : captures_) {
        if (!capture.used) {
            continue;
        }
        if (wanted.id != 0 && capture.id == wanted.id) {
            return &capture;
        }
        if (wanted.id == 0 || capture.id == 0) {
            if (capture.origin == stream) {
                return &capture;
            }
            nameless = &capture;
            ++nameless_count;
        }
    }
    if (wanted.id == 0) {
        for (const CapturedStream& row : streams_) {
            if (row.stream.load(std::memory_order_relaxed) == stream) {
                return row.capture;
            }
        }
    }
    return nameless_count == 1 ? nameless : nullptr;
}

uint32_t Graphs::join_capture(Recording& recording, const void* stream, const Capture& wanted) {
    const uintptr_t key = key_of(stream);
    OpenCapture* capture = find_capture(key, wanted);
    if (capture == nullptr && wanted.id != 0) {
        capture = take_capture();
    }
    if (capture == nullptr) {
        count_loss(recording, format::Loss::kGraphsUntracked);
        return kUnknownCapture;
    }
    if (wanted.id != 0) {
        capture->id = wanted.id;
        capture->graph = wanted.graph;
    }
    if (capture->number == 0) {
        capture->number = ++captures_seen_;
    }
    add_stream(key, *capture);
    return capture->number;
}

Graphs::OpenCapture* Graphs::numbered(uint32_t number) {
    for (OpenCapture& capture : captures_) {
        if (capture.used && number != 0 && capture.number == number) {
            return &capture;
        }
    }
    return nullptr;
}

void Graphs::remember(Recording& recording, const format::CollectiveEntry& entry) {
    OpenCapture* const capture = numbered(entry.graph);
    if (capture == nullptr || capture->calls == &untracked_) {
        return;  // counted when the capture found no room
    }
    const bool first_of_group = entry.group != 0 && entry.group != capture->last_group;
    const uint32_t groups = (capture->calls != nullptr ? capture->calls->groups : 0) + (first_of_group ? 1 : 0);
    const CapturedCall call{
        .communicator_id = entry.communicator_id,
        .count = entry.count,
        .send_buffer = entry.send_buffer,
        .receive_buffer = entry.receive_buffer,
        .node = 0,
        .group = entry.group != 0 ? groups : 0,
        .group_index = static_cast<uint16_t>(entry.group_index < UINT16_MAX ? entry.group_index : UINT16_MAX),
        .stack = static_cast<uint16_t>(entry.stack),
        .capture = entry.graph,
        .peer = entry.peer,
        .communicator =
            entry.communicator == format::kNoIndex ? kNoCommunicator : static_cast<uint16_t>(entry.communicator),
        .flags = static_cast<uint16_t>(entry.flags & ~format::kCaptured),
        .kind = entry.kind,
        .datatype = entry.datatype,
        .reduction = entry.reduction,
    };
    capture->calls = lists_.append(capture->calls, &call, 1);
    if (capture->calls == nullptr) {
        count_loss(recording, format::Loss::kGraphsUntracked);
        capture->calls = &untracked_;
        return;
    }
    capture->calls->groups = groups;
    capture->last_group = entry.group != 0 ? entry.group : capture->last_group;
}

void Graphs::remember_launch(Recording& recording, uint32_t number, const void* exec) {
    OpenCapture* const capture = numbered(number);
    const CapturedCalls* const more = execs_.find(exec);
    if (capture == nullptr || more == nullptr) {
        return;
    }
    append(recording, capture->calls, *more, kUnknownNode);
    capture->last_group = 0;
}

void Graphs::end_capture(Recording& recording, const void* stream, const void* graph) {
    const uintptr_t key = key_of(stream);
    OpenCapture* capture = nullptr;
    for (OpenCapture& open : captures_) {
        const bool same =
            open.used && (open.origin != 0 ? open.origin == key : graph != nullptr && open.graph == graph);
        capture = same ? &open : capture;
    }
    if (capture == nullptr) {
        return;
    }
    CapturedCalls* const calls = capture->calls;
    const bool into_existing = capture->into != nullptr;
    close_capture(*capture);
    if (graph == nullptr) {
        release(calls);
        return;
    }
    CapturedCalls* const before = into_existing ? graphs_.find(graph) : nullptr;
    if (before == nullptr) {
        bind(recording, graphs_, graph, calls);
        return;
    }
    if (before == &body_ && calls != nullptr) {
        count_loss(recording,
                   format::Loss::kGraphsUntracked);  // only the device knows how often a body runs, if at all
    } else if (before != &body_ && calls != nullptr) {
        CapturedCalls* list = shared(before);
        append(recording, list, *calls, 0);
        bind(recording, graphs_, graph, list);
    }
    release(calls);
}

}  // namespace titan::tracer

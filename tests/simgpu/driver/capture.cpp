#include "capture.h"

#include <algorithm>

#include "graph.h"

namespace simgpu {

CUstreamCaptureMode& thread_capture_mode() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

CUresult refuse(const std::shared_ptr<Capture>& capture, CUresult error) {
    capture->invalidated = true;
    return error;
}

CUresult check_unsafe_call() {
    const CUstreamCaptureMode mode = thread_capture_mode();
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_SUCCESS;
    }
    CUresult result = CUDA_SUCCESS;
    for (const auto& capture : driver().captures) {
        const bool mine = capture->owner == std::this_thread::get_id();
        const bool forbids =
            mine ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                 : mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (forbids) {
            result = refuse(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    return result;
}

CUresult check_legacy_use(CUcontext context) {
    CUresult result = CUDA_SUCCESS;
    for (const auto& [handle, stream] : driver().streams) {
        if (stream->capture && stream->context == context && !(stream->flags & CU_STREAM_NON_BLOCKING)) {
            result = refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
    }
    return result;
}

CUresult begin_capture(const StreamRef& stream, CUstreamCaptureMode mode, CUgraph into,
                       std::vector<CUgraphNode> after) {
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->context->legacy == stream) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    auto capture = std::make_shared<Capture>();
    capture->id = driver().next_id++;
    capture->mode = mode;
    capture->owner = std::this_thread::get_id();
    capture->graph = into;
    capture->own_graph = !into;
    if (!into) {
        capture->graph = new CUgraph_st;
        driver().graphs.insert(capture->graph);
    }
    capture->origin = stream.get();
    stream->capture = capture;
    stream->capture_tail = std::move(after);
    driver().captures.push_back(std::move(capture));
    return CUDA_SUCCESS;
}

namespace {

// Every joined stream's last nodes must have been waited for by the origin, directly or not.
bool all_rejoined(const Capture& capture, const CUstream_st& origin) {
    std::set<CUgraphNode> reached;
    std::vector<CUgraphNode> todo = origin.capture_tail;
    while (!todo.empty()) {
        const CUgraphNode node = todo.back();
        todo.pop_back();
        if (reached.insert(node).second) {
            todo.insert(todo.end(), node->dependencies.begin(), node->dependencies.end());
        }
    }
    return std::all_of(capture.joined.begin(), capture.joined.end(), [&](CUstream handle) {
        auto found = driver().streams.find(handle);
        return found == driver().streams.end() ||
               std::all_of(found->second->capture_tail.begin(), found->second->capture_tail.end(),
                           [&](CUgraphNode node) { return reached.count(node) != 0; });
    });
}

}  // namespace

CUresult end_capture(const StreamRef& stream, CUgraph* out) {
    *out = nullptr;
    auto capture = stream->capture;
    if (!capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream.get()) {
        return refuse(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->owner != std::this_thread::get_id()) {
        return refuse(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
    CUresult result = CUDA_SUCCESS;
    if (capture->invalidated) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!all_rejoined(*capture, *stream)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    for (auto& [handle, other] : driver().streams) {
        if (other->capture == capture) {
            other->capture.reset();
            other->capture_tail.clear();
        }
    }
    stream->capture.reset();
    auto& captures = driver().captures;
    captures.erase(std::remove(captures.begin(), captures.end(), capture), captures.end());
    capture->ended = true;
    if (result == CUDA_SUCCESS) {
        *out = capture->graph;
    } else if (capture->own_graph) {
        withdraw_graph(capture->graph);
        delete capture->graph;
    }
    return result;
}

CUresult join_capture(const StreamRef& stream, const EventRef& event) {
    const auto& theirs = event->capture;
    if (theirs->ended) {
        return stream->capture ? refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                               : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (theirs->invalidated || (stream->capture && stream->capture->invalidated)) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (stream->capture && stream->capture != theirs) {
        refuse(theirs, CUDA_ERROR_STREAM_CAPTURE_MERGE);
        return refuse(stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream == stream->context->legacy) {
        return refuse(theirs, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    if (!stream->capture) {
        stream->capture = theirs;
        stream->capture->joined.push_back(stream.get());
    }
    for (CUgraphNode node : event->capture_tail) {
        auto& tail = stream->capture_tail;
        if (std::find(tail.begin(), tail.end(), node) == tail.end()) {
            tail.push_back(node);
        }
    }
    return CUDA_SUCCESS;
}

CUresult add_captured_node(const StreamRef& stream, CUgraphNode_st node) {
    if (stream->capture->invalidated) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    node.dependencies = stream->capture_tail;
    stream->capture_tail = {add_node(*stream->capture->graph, std::move(node))};
    return CUDA_SUCCESS;
}

}  // namespace simgpu

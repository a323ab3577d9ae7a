// Driver API: stream capture.
#include <algorithm>

#include "capture.h"
#include "impl.h"

namespace simgpu::impl {

#define FIND_STREAM(handle)                                                             \
    StreamRef stream;                                                                   \
    if (const CUresult found = find_stream((handle), &stream); found != CUDA_SUCCESS) { \
        return found;                                                                   \
    }

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    return begin_capture(stream, mode, nullptr, {});
}

namespace {

bool all_in(const CUgraph_st& graph, const CUgraphNode* nodes, size_t count) {
    return std::all_of(nodes, nodes + count, [&](CUgraphNode node) {
        return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                           [&](const auto& member) { return member.get() == node; });
    });
}

}  // namespace

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    if (!driver().graphs.count(graph) || (count && !dependencies) || !all_in(*graph, dependencies, count)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return begin_capture(stream, mode, graph, std::vector<CUgraphNode>(dependencies, dependencies + count));
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* dependencies, const CUgraphEdgeData*,
                                              size_t count, unsigned int flags) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    if (!stream->capture) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if ((count && !dependencies) || !all_in(*stream->capture->graph, dependencies, count)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        stream->capture_tail.clear();
    }
    stream->capture_tail.insert(stream->capture_tail.end(), dependencies, dependencies + count);
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count,
                                           unsigned int flags) {
    return impl::cuStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    return end_capture(stream, graph);
}

namespace {

struct CaptureView {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    size_t dependency_count = 0;
};

CUresult view_capture(CUstream handle, CaptureView* view) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    if (stream == stream->context->legacy) {
        // Not a capture of this stream, yet a question that cannot be answered while a blocking stream is captured.
        for (const auto& [other_handle, other] : driver().streams) {
            if (other->capture && other->context == stream->context && !(other->flags & CU_STREAM_NON_BLOCKING)) {
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
        }
    }
    if (const auto& capture = stream->capture) {
        view->status = capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        view->id = capture->id;
        view->graph = capture->graph;
        view->dependencies = stream->capture_tail.data();
        view->dependency_count = stream->capture_tail.size();
    }
    return CUDA_SUCCESS;
}

template <typename T>
void put(T* to, T value) {
    if (to) {
        *to = value;
    }
}

}  // namespace

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
    CaptureView view;
    const CUresult result = view_capture(handle, &view);
    put(status, view.status);
    return result;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
    CaptureView view;
    const CUresult result = view_capture(handle, &view);
    put(status, view.status);
    if (view.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        put(id, view.id);
        put(graph, view.graph);
        put(dependencies, view.dependencies);
        put(count, view.dependency_count);
    }
    put(edges, static_cast<const CUgraphEdgeData*>(nullptr));
    return result;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
    return impl::cuStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, nullptr, count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return impl::cuStreamGetCaptureInfo_v3(handle, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::swap(thread_capture_mode(), *mode);
    return CUDA_SUCCESS;
}

}  // namespace simgpu::impl

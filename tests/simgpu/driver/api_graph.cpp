// Driver API: stream capture and graphs.
//
// A graph launch runs the nodes one after another, in the order they were captured. That order respects every
// dependency; what it loses is concurrency between branches.
#include "capture.h"
#include "objects.h"

using namespace simgpu;

#define FIND_STREAM(handle)                                                             \
    StreamRef stream;                                                                   \
    if (const CUresult found = find_stream((handle), &stream); found != CUDA_SUCCESS) { \
        return found;                                                                   \
    }

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
    FIND_STREAM(handle)
    std::lock_guard lock(driver().lock);
    return begin_capture(stream, mode, nullptr);
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
    return cuStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, nullptr, count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
    return cuStreamGetCaptureInfo_v3(handle, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::swap(thread_capture_mode(), *mode);
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph* out, unsigned int) {
    if (const CUresult result = ready(); result != CUDA_SUCCESS) {
        return result;
    }
    std::lock_guard lock(driver().lock);
    *out = new CUgraph_st;
    driver().graphs.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    std::lock_guard lock(driver().lock);
    if (!driver().graphs.erase(graph)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    delete graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    std::lock_guard lock(driver().lock);
    if (!driver().graphs.count(graph) || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (nodes) {
        for (size_t i = 0; i < *count; ++i) {
            nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
        }
    }
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    if (!node || !type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
    CUcontext context;
    if (const CUresult result = require_context(&context); result != CUDA_SUCCESS) {
        return result;
    }
    std::lock_guard lock(driver().lock);
    if (!driver().graphs.count(graph)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = new CUgraphExec_st{graph->nodes, context};
    driver().graph_execs.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    const CUresult result = cuGraphInstantiateWithFlags(out, graph, params ? params->flags : 0);
    if (params) {
        params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    }
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    std::lock_guard lock(driver().lock);
    if (!driver().graph_execs.erase(exec)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    delete exec;  // launches in flight keep their nodes
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    FIND_STREAM(handle)
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
    {
        std::lock_guard lock(driver().lock);
        if (!driver().graph_execs.count(exec)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        nodes = exec->nodes;
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_GRAPH, [nodes = std::move(nodes)] {
        for (const auto& node : nodes) {
            if (node->run) {
                node->run();
            }
        }
    });
}

CUresult cuGraphUpload(CUgraphExec, CUstream handle) {
    FIND_STREAM(handle)
    return CUDA_SUCCESS;
}

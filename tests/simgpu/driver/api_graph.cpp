// Driver API: graphs.
//
// A graph launch runs the nodes one after another, in the order they were captured. That order respects every
// dependency; what it loses is concurrency between branches.
#include <algorithm>

#include "capture.h"
#include "graph.h"
#include "impl.h"

namespace simgpu::impl {

namespace {

bool alive(CUgraph graph) { return driver().graphs.count(graph) != 0; }  // lock held

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraphNode_st node) {
    std::lock_guard lock(driver().lock);
    if (!out || !alive(graph) || (count && !dependencies)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    node.dependencies.assign(dependencies, dependencies + count);
    *out = add_node(*graph, std::move(node));
    return CUDA_SUCCESS;
}

// The usual way of CUDA to hand out a list: its length without room, else as many as fit, null behind the end.
CUresult list(const std::vector<CUgraphNode>& nodes, CUgraphNode* out, size_t* count) {
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; out && i < *count; ++i) {
        out[i] = i < nodes.size() ? nodes[i] : nullptr;
    }
    *count = nodes.size();
    return CUDA_SUCCESS;
}

template <typename Condition>
CUresult list_nodes(CUgraph graph, CUgraphNode* out, size_t* count, Condition condition) {
    std::lock_guard lock(driver().lock);
    if (!alive(graph)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::vector<CUgraphNode> found;
    for (const auto& node : graph->nodes) {
        if (condition(*node)) {
            found.push_back(node.get());
        }
    }
    return list(found, out, count);
}

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned int) {
    SIMGPU_TRY(ready());
    std::lock_guard lock(driver().lock);
    *out = new CUgraph_st;
    publish_graph(*out);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    std::lock_guard lock(driver().lock);
    const auto& captures = driver().captures;
    if (!alive(graph) || graph->embedded ||
        std::any_of(captures.begin(), captures.end(), [&](const auto& one) { return one->graph == graph; })) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    withdraw_graph(graph);
    delete graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph original) {
    std::lock_guard lock(driver().lock);
    if (!out || !alive(original)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = copy_graph(*original).release();
    publish_graph(*out);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
    std::lock_guard lock(driver().lock);
    if (!out || !alive(clone)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (const auto& node : clone->nodes) {
        if (node->original == original) {
            *out = node.get();
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  CUgraph child) {
    CUgraphNode_st node{CU_GRAPH_NODE_TYPE_GRAPH, {}, {}};
    {
        std::lock_guard lock(driver().lock);
        if (!alive(child) || child == graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        node.child = copy_graph(*child);
    }
    return add(out, graph, dependencies, count, std::move(node));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
    return add(out, graph, dependencies, count, {CU_GRAPH_NODE_TYPE_EMPTY, {}, {}});
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
    if (!params || !params->fn) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const Work call = [function = params->fn, data = params->userData] { function(data); };
    return add(out, graph, dependencies, count, {CU_GRAPH_NODE_TYPE_HOST, call, {}});
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
    if (!node || !out || !node->child) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = node->child.get();
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    return list_nodes(graph, nodes, count, [](const CUgraphNode_st&) { return true; });
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    return list_nodes(graph, nodes, count, [](const CUgraphNode_st& node) { return node.dependencies.empty(); });
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData*, size_t* count) {
    std::lock_guard lock(driver().lock);
    return node ? list(node->dependencies, out, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
    return impl::cuGraphNodeGetDependencies_v2(node, out, nullptr, count);
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
    SIMGPU_TRY(require_context(&context));
    std::lock_guard lock(driver().lock);
    if (!out || !alive(graph)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = new CUgraphExec_st{copy_graph(*graph), context};
    driver().graph_execs.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    const CUresult result = impl::cuGraphInstantiateWithFlags(out, graph, params ? params->flags : 0);
    if (params) {
        params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    }
    return result;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
    std::lock_guard lock(driver().lock);
    if (!driver().graph_execs.count(exec) || !alive(graph) || !info) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *info = {};
    info->result = compare_graphs(*exec->body, *graph, &info->errorNode);
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec->body = copy_renamed(*graph, *exec->body);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* odd, CUgraphExecUpdateResult* answer) {
    CUgraphExecUpdateResultInfo info = {};
    const CUresult result = impl::cuGraphExecUpdate_v2(exec, graph, &info);
    if (odd) {
        *odd = info.errorNode;
    }
    if (answer) {
        *answer = info.result;
    }
    return result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode handle, CUgraph child) {
    std::lock_guard lock(driver().lock);
    if (!driver().graph_execs.count(exec) || !alive(child)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    std::shared_ptr<CUgraph_st> body = copy_renamed(*exec->body, *exec->body);
    const auto found = std::find_if(body->nodes.begin(), body->nodes.end(),
                                    [&](const auto& node) { return node->original == handle; });
    CUgraphNode odd;
    if (found == body->nodes.end() || !(*found)->child ||
        compare_graphs(*(*found)->child, *child, &odd) != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (*found)->child = copy_renamed(*child, *(*found)->child);
    exec->body = std::move(body);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    std::lock_guard lock(driver().lock);
    if (!driver().graph_execs.erase(exec)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    delete exec;  // launches in flight keep their body
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    StreamRef stream;
    SIMGPU_TRY(find_stream(handle, &stream));
    std::vector<Work> works;
    {
        std::lock_guard lock(driver().lock);
        if (!driver().graph_execs.count(exec)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (stream->capture) {
            return add_captured_node(
                stream, {.type = CU_GRAPH_NODE_TYPE_GRAPH, .run = {}, .name = {}, .child = copy_graph(*exec->body)});
        }
        works = unroll(*exec->body);
    }
    return submit(stream, CU_GRAPH_NODE_TYPE_GRAPH, [works = std::move(works)] {
        for (const Work& work : works) {
            work();
        }
    });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
    StreamRef stream;
    const CUresult found = find_stream(handle, &stream);
    std::lock_guard lock(driver().lock);
    return found != CUDA_SUCCESS ? found : driver().graph_execs.count(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simgpu::impl

// Graphs: children, clones, updates, captures into a graph, and what a launch or a destruction leaves alone.
#include "node.h"

using namespace simgpu_test;

namespace {

cudaGraph_t capture(cudaStream_t stream, const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    work();
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    return graph;
}

cudaGraph_t capture_add(cudaStream_t stream, float* data, float value, int times = 1) {
    return capture(stream, [=] {
        for (int i = 0; i < times; ++i) {
            simgpu_launch_add(data, 1, value, stream);
        }
    });
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    return exec;
}

float launched(cudaGraphExec_t exec, cudaStream_t stream, float* data) {
    *data = 0;
    CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    return *data;
}

}  // namespace

TEST_CASE("a child graph is a copy, and runs at its place in each launch of its parent") {
    Stream stream;
    float data = 0;
    cudaGraph_t child = capture_add(stream, &data, 1), parent;
    REQUIRE(cudaGraphCreate(&parent, 0) == cudaSuccess);
    cudaGraphNode_t first, second;
    CHECK(cudaGraphAddChildGraphNode(&first, parent, nullptr, 0, child) == cudaSuccess);
    CHECK(cudaGraphAddChildGraphNode(&second, parent, &first, 1, child) == cudaSuccess);
    CHECK(cudaGraphDestroy(child) == cudaSuccess);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(first, &type) == cudaSuccess);
    CHECK(type == cudaGraphNodeTypeGraph);
    cudaGraph_t inner = nullptr;
    size_t nodes = 0;
    CHECK(cudaGraphChildGraphNodeGetGraph(second, &inner) == cudaSuccess);
    CHECK(cudaGraphGetNodes(inner, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 1);
    CHECK(cudaGraphDestroy(inner) == cudaErrorInvalidValue);  // its node's
    cudaGraphExec_t exec = instantiate(parent);
    CHECK(launched(exec, stream, &data) == 2);

    cudaGraph_t other = capture_add(stream, &data, 10), longer = capture_add(stream, &data, 10, 2);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, second, other) == cudaSuccess);
    CHECK(launched(exec, stream, &data) == 11);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, second, longer) == cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(parent) == cudaSuccess);
    CHECK(launched(exec, stream, &data) == 11);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue);
}

TEST_CASE("a launch into a stream that is captured becomes a child graph") {
    Stream stream, other;
    float data = 0;
    cudaGraph_t small = capture_add(stream, &data, 1);
    cudaGraphExec_t exec = instantiate(small);
    cudaGraph_t whole = capture(other, [&] {
        simgpu_launch_add(&data, 1, 100, other);
        CHECK(cudaGraphLaunch(exec, other) == cudaSuccess);
        CHECK(cudaGraphLaunch(exec, other) == cudaSuccess);
    });
    CHECK(data == 0);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(launched(instantiate(whole), stream, &data) == 102);
}

TEST_CASE("clones and updates") {
    Stream stream;
    float data = 0;
    cudaGraph_t graph = capture_add(stream, &data, 1), clone;
    REQUIRE(cudaGraphClone(&clone, graph) == cudaSuccess);
    cudaGraphNode_t node, twin = nullptr;
    size_t count = 1;
    CHECK(cudaGraphGetNodes(graph, &node, &count) == cudaSuccess);
    CHECK(cudaGraphNodeFindInClone(&twin, node, clone) == cudaSuccess);
    CHECK(twin != node);
    CHECK(cudaGraphNodeFindInClone(&twin, node, graph) == cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    cudaGraphExec_t exec = instantiate(clone);
    CHECK(launched(exec, stream, &data) == 1);

    cudaGraphExecUpdateResultInfo info;
    cudaGraph_t same = capture_add(stream, &data, 7), longer = capture_add(stream, &data, 7, 2);
    CHECK(cudaGraphExecUpdate(exec, same, &info) == cudaSuccess);
    CHECK(launched(exec, stream, &data) == 7);
    CHECK(cudaGraphExecUpdate(exec, longer, &info) == cudaErrorGraphExecUpdateFailure);
    CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
    cudaGraph_t another = capture(stream, [&] { cudaMemsetAsync(&data, 0, 4, stream); });
    CHECK(cudaGraphExecUpdate(exec, another, &info) == cudaErrorGraphExecUpdateFailure);
    CHECK(info.result == cudaGraphExecUpdateErrorNodeTypeChanged);
    CHECK(launched(exec, stream, &data) == 7);
    cudaGetLastError();
}

TEST_CASE("a capture into the program's own graph, and the questions about a capture") {
    Stream stream;
    float data = 0;
    cudaGraph_t graph, seen = nullptr, ended = nullptr;
    REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
    unsigned long long ids[2] = {};
    for (unsigned long long& id : ids) {
        REQUIRE(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed) ==
                cudaSuccess);
        simgpu_launch_add(&data, 1, 1, stream);
        cudaStreamCaptureStatus status;
        const cudaGraphNode_t* tail = nullptr;
        size_t tail_length = 0;
        CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, &seen, &tail, nullptr, &tail_length) == cudaSuccess);
        CHECK(status == cudaStreamCaptureStatusActive);
        CHECK(seen == graph);
        CHECK(tail_length == 1);
        CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
        CHECK(cudaStreamEndCapture(stream, &ended) == cudaSuccess);
        CHECK(ended == graph);
    }
    CHECK(ids[0] != 0);
    CHECK(ids[1] != ids[0]);
    CHECK(launched(instantiate(graph), stream, &data) == 2);
    // A capture that fails leaves the program its graph.
    REQUIRE(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed) ==
            cudaSuccess);
    CHECK(cudaStreamQuery(stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(stream, &ended) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("an external event of a graph is completed by each launch anew") {
    Stream stream;
    cudaEvent_t event;
    cudaEventCreate(&event);
    Gate gate;
    cudaGraph_t graph = capture(stream, [&] {
        CHECK(gate.hold(stream) == cudaSuccess);
        CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) == cudaSuccess);
    });
    cudaGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 2; ++i) {
        gate.open = false;
        CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
        CHECK(cudaEventQuery(event) == cudaErrorNotReady);
        gate.open = true;
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        CHECK(cudaEventQuery(event) == cudaSuccess);
    }
    cudaGetLastError();
}

TEST_CASE("events of a capture cannot be asked or waited for outside, even after it") {
    Stream stream, outside;
    cudaEvent_t event;
    cudaEventCreate(&event);
    float data = 0;
    capture(stream, [&] {
        simgpu_launch_add(&data, 1, 1, stream);
        cudaEventRecord(event, stream);
    });
    CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
    CHECK(cudaStreamWaitEvent(outside, event, 0) == cudaErrorCapturedEvent);
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(outside, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
    CHECK(cudaEventRecord(event, outside) == cudaSuccess);  // a recording elsewhere makes it an ordinary one again
    CHECK(cudaEventSynchronize(event) == cudaSuccess);
    cudaGetLastError();
}

TEST_CASE("what invalidates a capture from another thread, and what does not") {
    REQUIRE(cudaSetDevice(0) == cudaSuccess);  // the other thread's
    Stream stream;
    void* memory = nullptr;
    const std::function<cudaError_t()> illegal[] = {
        [&] { return cudaMalloc(&memory, 64); },
        [] { return cudaStreamQuery(cudaStreamLegacy); },
        [] { return cudaDeviceSynchronize(); },
        [] {
            int a = 0, b = 1;
            return cudaMemcpy(&a, &b, 4, cudaMemcpyDefault);
        },
    };
    for (const auto& call : illegal) {
        for (const bool relaxed : {false, true}) {
            CAPTURE(&call - illegal);
            CAPTURE(relaxed);
            cudaGraph_t graph;
            REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
            cudaError_t answer = cudaSuccess;
            std::thread([&] {
                cudaStreamCaptureMode mode = relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
                CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
                CHECK(mode == cudaStreamCaptureModeGlobal);
                answer = call();
            }).join();
            const bool always = &call == &illegal[2];  // the device of a stream that is captured
            CHECK((answer == cudaErrorStreamCaptureUnsupported) == (!relaxed || always));
            CHECK((cudaStreamEndCapture(stream, &graph) == cudaSuccess) == (relaxed && !always));
        }
    }
    // Only the thread that began a capture may end it, unless it is a relaxed one.
    for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
        cudaGraph_t graph;
        REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
        cudaError_t answer = cudaSuccess;
        std::thread([&] { answer = cudaStreamEndCapture(stream, &graph); }).join();
        if (mode == cudaStreamCaptureModeRelaxed) {
            CHECK(answer == cudaSuccess);
        } else {
            CHECK(answer == cudaErrorStreamCaptureWrongThread);
            CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
        }
    }
    cudaGetLastError();
}

TEST_CASE("collectives on forked streams of one capture, replayed as a child graph") {
    Node node(2);
    float data[2][2] = {{1, 1}, {1, 1}};
    cudaGraphExec_t execs[2];
    for (int r = 0; r < 2; ++r) {
        const auto at = static_cast<size_t>(r);
        cudaSetDevice(r);
        Stream side, replay;
        cudaEvent_t fork, join;
        cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
        ncclComm_t comm = node.comms[at];
        cudaGraph_t inner = capture(node.streams[at], [&] {
            CHECK(ncclAllReduce(&data[r][0], &data[r][0], 1, ncclFloat, ncclSum, comm, node.streams[at]) ==
                  ncclSuccess);
            cudaEventRecord(fork, node.streams[at]);
            cudaStreamWaitEvent(side, fork, 0);
            CHECK(ncclAllReduce(&data[r][1], &data[r][1], 1, ncclFloat, ncclProd, comm, side) == ncclSuccess);
            cudaEventRecord(join, side);
            cudaStreamWaitEvent(node.streams[at], join, 0);
        });
        cudaGraph_t outer;
        cudaGraphNode_t child;
        REQUIRE(cudaGraphCreate(&outer, 0) == cudaSuccess);
        REQUIRE(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner) == cudaSuccess);
        execs[r] = instantiate(outer);
        cudaGraphDestroy(outer);
        cudaGraphDestroy(inner);
    }
    for (int i = 0; i < 2; ++i) {
        for (int r = 0; r < 2; ++r) {
            CHECK(cudaGraphLaunch(execs[r], node.streams[static_cast<size_t>(r)]) == cudaSuccess);
        }
    }
    node.sync();
    CHECK(data[0][0] == 4);
    CHECK(data[1][1] == 1);
    cudaSetDevice(0);
}

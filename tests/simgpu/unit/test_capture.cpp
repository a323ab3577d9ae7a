// Stream capture: what is recorded, what is forbidden, and replays.
#include "node.h"

using namespace simgpu_test;

namespace {

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
    return status;
}

}  // namespace

TEST_CASE("captured work runs at each launch of the graph, over forked streams too") {
    Stream origin, side;
    cudaEvent_t fork, join;
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
    float data = 0;
    REQUIRE(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(status_of(origin) == cudaStreamCaptureStatusActive);
    simgpu_launch_add(&data, 1, 1, origin);
    cudaEventRecord(fork, origin);
    cudaStreamWaitEvent(side, fork, 0);
    CHECK(status_of(side) == cudaStreamCaptureStatusActive);
    simgpu_launch_add(&data, 1, 10, side);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(origin, join, 0);
    cudaGraph_t graph;
    REQUIRE(cudaStreamEndCapture(origin, &graph) == cudaSuccess);
    CHECK(data == 0);
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 2);
    cudaGraphExec_t exec;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, origin) == cudaSuccess);
    }
    CHECK(cudaStreamSynchronize(origin) == cudaSuccess);
    CHECK(data == 33);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("collectives can be captured and replayed") {
    Node node(2);
    float data[2] = {1, 1};
    cudaGraphExec_t execs[2];
    for (int r = 0; r < 2; ++r) {
        const auto at = static_cast<size_t>(r);
        cudaSetDevice(r);
        cudaGraph_t graph;
        REQUIRE(cudaStreamBeginCapture(node.streams[at], cudaStreamCaptureModeThreadLocal) == cudaSuccess);
        CHECK(ncclAllReduce(&data[r], &data[r], 1, ncclFloat, ncclSum, node.comms[at], node.streams[at]) ==
              ncclSuccess);
        REQUIRE(cudaStreamEndCapture(node.streams[at], &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&execs[r], graph, 0) == cudaSuccess);
    }
    for (int i = 0; i < 3; ++i) {
        for (int r = 0; r < 2; ++r) {
            CHECK(cudaGraphLaunch(execs[r], node.streams[static_cast<size_t>(r)]) == cudaSuccess);
        }
    }
    node.sync();
    CHECK(data[0] == 8);
    CHECK(data[1] == 8);
}

TEST_CASE("calls that could synchronise invalidate a capture in global mode") {
    Stream stream;
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaGraph_t graph;
    const auto capture_then = [&](cudaStreamCaptureMode mode, const std::function<cudaError_t()>& call) {
        REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
        const cudaError_t answer = call();
        const bool valid = status_of(stream) == cudaStreamCaptureStatusActive;
        CHECK(cudaStreamEndCapture(stream, &graph) == (valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
        CHECK((graph != nullptr) == valid);
        return std::pair{answer, valid};
    };
    using Answer = std::pair<cudaError_t, bool>;
    const auto query = [&] { return cudaEventQuery(event); };
    const auto query_elsewhere = [&] {
        cudaError_t answer;
        std::thread([&] { answer = cudaEventQuery(event); }).join();
        return answer;
    };
    CHECK(capture_then(cudaStreamCaptureModeGlobal, query) == Answer{cudaErrorStreamCaptureUnsupported, false});
    CHECK(capture_then(cudaStreamCaptureModeGlobal, query_elsewhere) ==
          Answer{cudaErrorStreamCaptureUnsupported, false});
    CHECK(capture_then(cudaStreamCaptureModeThreadLocal, query) == Answer{cudaErrorStreamCaptureUnsupported, false});
    CHECK(capture_then(cudaStreamCaptureModeThreadLocal, query_elsewhere) == Answer{cudaSuccess, true});
    CHECK(capture_then(cudaStreamCaptureModeRelaxed, query) == Answer{cudaSuccess, true});
    CHECK(capture_then(cudaStreamCaptureModeGlobal, [&] { return cudaStreamSynchronize(stream); }) ==
          Answer{cudaErrorStreamCaptureUnsupported, false});
    CHECK(capture_then(cudaStreamCaptureModeRelaxed, [&] {
              cudaEventRecord(event, stream);
              return cudaEventQuery(event);
          }) == Answer{cudaErrorCapturedEvent, false});
    // A thread that exchanged its mode may ask.
    CHECK(capture_then(cudaStreamCaptureModeGlobal, [&] {
              cudaError_t answer;
              cudaEvent_t other;
              cudaEventCreate(&other);
              std::thread([&] {
                  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
                  cudaThreadExchangeStreamCaptureMode(&mode);
                  answer = cudaEventQuery(other);
              }).join();
              return answer;
          }) == Answer{cudaSuccess, true});
}

TEST_CASE("captures that are not put together again, or that mix with other work") {
    Stream origin, side;
    cudaEvent_t event, outside;
    cudaEventCreate(&event);
    cudaEventCreate(&outside);
    cudaEventRecord(outside, side);
    float data = 0;
    cudaGraph_t graph;
    REQUIRE(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    cudaEventRecord(event, origin);
    cudaStreamWaitEvent(side, event, 0);
    simgpu_launch_add(&data, 1, 1, side);
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureUnjoined);
    REQUIRE(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(origin, outside, 0) == cudaErrorStreamCaptureIsolation);
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
}

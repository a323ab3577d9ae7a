// Ways to capture NCCL's calls into CUDA graphs and to run them, on one rank. The number of elements is a call's name.
#include "client.h"

using client::Rank;
using client::say;

namespace {

struct Streams : Rank {
    cudaStream_t side = nullptr;
    cudaEvent_t forked = nullptr, joined = nullptr;

    Streams() {
        CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        CUDA(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
        CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
        join();
    }

    void reduce(size_t count, cudaStream_t on) const {
        NCCL(ncclAllReduce(send, receive, count, ncclFloat32, ncclSum, comm, on));
    }

    template <typename Fill>
    cudaGraph_t capture(Fill fill) const {
        cudaGraph_t graph = nullptr;
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        fill();
        CUDA(cudaStreamEndCapture(stream, &graph));
        return graph;
    }
    cudaGraph_t capture_reduce(size_t count) const {
        return capture([&] { reduce(count, stream); });
    }

    void launch(cudaGraphExec_t exec) const {
        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
};

cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

int hold() {
    say("done");
    client::await("go");
    return 0;
}

// NCCL on a stream of its own, as frameworks have it; a group; eager calls before and behind.
int forked() {
    Streams s;
    s.reduce(1, s.stream);
    const cudaGraph_t graph = s.capture([&] {
        CUDA(cudaEventRecord(s.forked, s.stream));
        CUDA(cudaStreamWaitEvent(s.side, s.forked, 0));
        s.reduce(2, s.side);
        NCCL(ncclGroupStart());
        s.reduce(3, s.side);
        s.reduce(4, s.side);
        NCCL(ncclGroupEnd());
        CUDA(cudaEventRecord(s.joined, s.side));
        CUDA(cudaStreamWaitEvent(s.stream, s.joined, 0));
        s.reduce(5, s.stream);
    });
    const cudaGraphExec_t exec = instantiate(graph);
    CUDA(cudaGraphDestroy(graph));
    s.launch(exec);
    s.launch(exec);
    CUDA(cudaGraphExecDestroy(exec));
    s.reduce(6, s.stream);
    s.sync();
    return hold();
}

// What a graph can become: a clone, a child, the update of another one, a launch that is captured itself.
int changed() {
    Streams s;
    const cudaGraph_t first = s.capture_reduce(1);
    const cudaGraph_t second = s.capture_reduce(2);
    cudaGraph_t clone = nullptr;
    CUDA(cudaGraphClone(&clone, first));
    cudaGraphNode_t node = nullptr;
    CUDA(cudaGraphAddChildGraphNode(&node, first, nullptr, 0, second));
    const cudaGraphExec_t both = instantiate(first);
    s.launch(both);  // 1 2
    const cudaGraphExec_t cloned = instantiate(clone);
    s.launch(cloned);  // 1
    cudaGraphExecUpdateResultInfo info{};
    CUDA(cudaGraphExecUpdate(cloned, second, &info));
    s.launch(cloned);  // 2
    CUDA(cudaGraphExecChildGraphNodeSetParams(both, node, clone));
    s.launch(both);  // 1 1
    const cudaGraphExec_t outer = instantiate(s.capture([&] {
        s.reduce(3, s.stream);
        CUDA(cudaGraphLaunch(cloned, s.stream));
    }));
    s.launch(outer);  // 3 2
    CUDA(cudaStreamBeginCaptureToGraph(s.stream, clone, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    s.reduce(4, s.stream);
    CUDA(cudaStreamEndCapture(s.stream, &clone));
    s.launch(instantiate(clone));  // 1 4
    return hold();
}

constexpr client::Scenario kScenarios[] = {{"forked", forked}, {"changed", changed}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

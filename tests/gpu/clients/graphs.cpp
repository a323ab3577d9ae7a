// Collectives in CUDA graphs, and captures beside collectives.
#include "rank.h"

using client::say;

namespace gpu_check {
namespace {

constexpr int kReplays = 4;

// The driver loads a kernel at its first launch, which should not be one in a capture.
void load(const Kernels& kernels, CUdeviceptr scratch, const Rank& r) {
    kernels.add(scratch, 1024, 1.0f, r.stream);
    r.sync();
}

// Two all_reduces on the stream, one on a forked stream beside a kernel, one after the join.
CUgraphExec captured(const Rank& r, const Kernels& kernels) {
    CUstream side = nullptr;
    CUevent fork = nullptr, join = nullptr;
    CUdeviceptr scratch = 0;
    DRIVER(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    DRIVER(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuMemAlloc_v2(&scratch, 1024 * sizeof(float)));
    load(kernels, scratch, r);

    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    DRIVER(cuStreamBeginCapture_v2(r.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    r.all_reduce();
    r.all_reduce();
    DRIVER(cuEventRecord(fork, r.stream));
    DRIVER(cuStreamWaitEvent(side, fork, 0));
    kernels.add(scratch, 1024, 1.0f, side);
    r.all_reduce(1024, side);
    DRIVER(cuEventRecord(join, side));
    DRIVER(cuStreamWaitEvent(r.stream, join, 0));
    r.all_reduce();
    DRIVER(cuStreamEndCapture(r.stream, &graph));
    DRIVER(cuGraphInstantiateWithFlags(&executable, graph, 0));
    DRIVER(cuGraphDestroy(graph));
    return executable;
}

}  // namespace

int graphs() {
    Rank r;
    const Kernels kernels;
    r.join();
    r.all_reduce();
    r.verify();
    const CUgraphExec executable = captured(r, kernels);
    for (int replay = 0; replay < kReplays; ++replay) {
        if (!r.is_victim() || replay != kReplays / 2) {
            DRIVER(cuGraphLaunch(executable, r.stream));
        }
    }
    if (r.is_victim()) {
        r.sync();
        say("issued");
        client::await("release");
        DRIVER(cuGraphLaunch(executable, r.stream));
    } else {
        say("issued");
    }
    r.verify();
    r.all_reduce();
    r.verify();
    say("done");
    client::await("go");
    DRIVER(cuGraphExecDestroy(executable));
    r.leave();
    return 0;
}

// A capture in global mode forbids what could synchronise to every thread that did not opt out. Another thread goes on
// with collectives meanwhile, as a data loader or an asynchronous checkpoint would.
int capture_safety() {
    Rank r;
    const Kernels kernels;
    r.join();
    r.all_reduce();
    r.sync();
    CUcontext context = nullptr;
    CUstream capturing = nullptr;
    CUdeviceptr scratch = 0;
    DRIVER(cuCtxGetCurrent(&context));
    DRIVER(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemAlloc_v2(&scratch, 1024 * sizeof(float)));
    load(kernels, scratch, r);

    const int calls = client::number("GPU_CHECK_CALLS", 400);
    std::atomic<bool> begun = false, ended = false;
    std::thread collectives([&] {
        DRIVER(cuCtxSetCurrent(context));
        while (!begun.load()) {
            usleep(100);
        }
        for (int i = 0; i < calls; ++i) {
            r.all_reduce();
            usleep(200);  // captures begin and end in between
        }
        ended = true;
    });
    int captures = 0, spoiled = 0;
    while (!ended.load()) {
        CUgraph graph = nullptr;
        DRIVER(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
        begun = true;
        for (int i = 0; i < 4; ++i) {
            kernels.add(scratch, 1024, 1.0f, capturing);
            usleep(500);
        }
        const CUresult result = cuStreamEndCapture(capturing, &graph);
        ++captures;
        spoiled += result != CUDA_SUCCESS || graph == nullptr;
        if (graph) {
            DRIVER(cuGraphDestroy(graph));
        }
    }
    collectives.join();
    r.verify();
    say("captures %d\nspoiled %d", captures, spoiled);
    r.leave();
    return 0;
}

}  // namespace gpu_check

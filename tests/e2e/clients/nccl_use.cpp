// Ways to use NCCL that a recorder can get wrong, on one rank (or all ranks of one process).
#include <atomic>
#include <thread>
#include <vector>

#include "client.h"

using client::Rank;
using client::say;

namespace {

// Keeps the ring readable until the test has looked.
int hold() {
    say("done");
    client::await("go");
    return 0;
}

int broadcast_once() {
    Rank r;
    r.join();
    NCCL(ncclBcast(r.send, 16, ncclFloat32, 0, r.comm, r.stream));
    NCCL(ncclBroadcast(r.send, r.receive, 16, ncclFloat32, 0, r.comm, r.stream));
    r.sync();
    return hold();
}

int init_all() {
    constexpr int kDevices = 4;
    ncclComm_t comms[kDevices];
    cudaStream_t streams[kDevices];
    float* buffers[kDevices];
    NCCL(ncclCommInitAll(comms, kDevices, nullptr));
    for (int i = 0; i < kDevices; ++i) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamCreate(&streams[i]));
        CUDA(cudaMalloc(reinterpret_cast<void**>(&buffers[i]), 1024));
    }
    NCCL(ncclGroupStart());
    for (int i = 0; i < kDevices; ++i) {
        NCCL(ncclAllReduce(buffers[i], buffers[i], 16, ncclFloat32, ncclSum, comms[i], streams[i]));
    }
    NCCL(ncclGroupEnd());
    for (cudaStream_t stream : streams) {
        CUDA(cudaStreamSynchronize(stream));
    }
    return hold();
}

int concurrent() {
    constexpr int kThreads = 8, kCalls = 200;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([] {
            Rank r;
            r.join();
            for (int call = 0; call < kCalls; ++call) {
                r.all_reduce(static_cast<size_t>(call + 1));
            }
            r.sync();
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return hold();
}

int nonblocking() {
    Rank r;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = "nonblocking";
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    const ncclResult_t result = ncclCommInitRankConfig(&r.comm, 1, id, 0, &config);
    REQUIRE(result == ncclSuccess || result == ncclInProgress);
    const auto ready = [&] {
        ncclResult_t state = ncclInProgress;
        do {
            NCCL(ncclCommGetAsyncError(r.comm, &state));
        } while (state == ncclInProgress);
        NCCL(state);
    };
    ready();
    for (int i = 0; i < 3; ++i) {
        const ncclResult_t called = ncclAllReduce(r.send, r.receive, 16, ncclFloat32, ncclSum, r.comm, r.stream);
        REQUIRE(called == ncclSuccess || called == ncclInProgress);
        ready();
    }
    r.sync();
    return hold();
}

int capture() {
    Rank r;
    r.join();
    r.reduce_and_sync();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
    r.all_reduce(32);
    CUDA(cudaStreamIsCapturing(r.stream, &status));
    REQUIRE(status == cudaStreamCaptureStatusActive);
    CUDA(cudaStreamEndCapture(r.stream, &graph));
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    say("nodes %zu", nodes);
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; ++i) {
        CUDA(cudaGraphLaunch(executable, r.stream));
        r.sync();
    }
    r.reduce_and_sync();
    return hold();
}

int failing_calls() {
    Rank r;
    r.join();
    const ncclResult_t bad_type =
        ncclAllReduce(r.send, r.receive, 1, static_cast<ncclDataType_t>(99), ncclSum, r.comm, r.stream);
    const ncclResult_t bad_root = ncclBroadcast(r.send, r.receive, 1, ncclFloat32, 7, r.comm, r.stream);
    say("%d %d", static_cast<int>(bad_type), static_cast<int>(bad_root));
    return hold();
}

int memory_and_errors() {
    Rank r;
    r.join();
    void* memory = nullptr;
    NCCL(ncclMemAlloc(&memory, 1 << 20));
    NCCL(ncclMemFree(memory));
    say("%s", ncclGetLastError(nullptr));
    ncclAllReduce(r.send, r.receive, 1, static_cast<ncclDataType_t>(99), ncclSum, r.comm, r.stream);
    for (int asked = 0; asked < 3; ++asked) {
        say("%s", ncclGetLastError(asked == 0 ? nullptr : r.comm));
    }
    return hold();
}

// PLT calls, and nothing held: what a healthy program does, and then it leaves.
int healthy() {
    Rank r;
    r.join();
    for (int i = 0; i < 10; ++i) {
        r.reduce_and_sync();
    }
    r.leave();
    say("done");
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"broadcast-once", broadcast_once},
                                           {"init-all", init_all},
                                           {"concurrent", concurrent},
                                           {"nonblocking", nonblocking},
                                           {"capture", capture},
                                           {"failing-calls", failing_calls},
                                           {"memory-and-errors", memory_and_errors},
                                           {"healthy", healthy}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

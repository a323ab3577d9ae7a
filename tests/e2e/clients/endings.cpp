// The ways in which frameworks end a communicator, each some time after its last call. The argument names the way;
// "all" goes through all of them, on communicators of their own.
#include <future>

#include "client.h"

using client::Rank;
using client::say;

namespace {

void finish(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
        NCCL(ncclCommGetAsyncError(comm, &state));
    }
    NCCL(state);
}

// PyTorch 2.1 to 2.3: destroy_process_group() aborts.
void abort_here(ncclComm_t comm) { NCCL(ncclCommAbort(comm)); }

// PyTorch 2.4 and 2.5: shutdown() aborts on a thread of its own and waits for it.
void abort_on_a_thread(ncclComm_t comm) {
    std::async(std::launch::async, [comm] { abort_here(comm); }).wait();
}

// PyTorch 2.6 on: several communicators are aborted in one group.
void abort_in_a_group(ncclComm_t comm) {
    NCCL(ncclGroupStart());
    NCCL(ncclCommAbort(comm));
    NCCL(ncclGroupEnd());
}

// PyTorch 2.6 on: shutdown() finalizes, and the communicator's destructor destroys.
void finalize_and_destroy(ncclComm_t comm) {
    NCCL(ncclCommFinalize(comm));
    finish(comm);
    NCCL(ncclCommDestroy(comm));
}

void finalize_and_abort(ncclComm_t comm) {
    NCCL(ncclCommFinalize(comm));
    finish(comm);
    NCCL(ncclCommAbort(comm));
}

void destroy(ncclComm_t comm) { NCCL(ncclCommDestroy(comm)); }

constexpr struct {
    const char* name;
    void (*end)(ncclComm_t comm);
} kWays[] = {{"abort", abort_here},
             {"abort-on-a-thread", abort_on_a_thread},
             {"abort-in-a-group", abort_in_a_group},
             {"finalize-and-destroy", finalize_and_destroy},
             {"finalize-and-abort", finalize_and_abort},
             {"destroy", destroy}};

// Around the times at which the recorder looks at the device: it does so each 2 ms, or 20 ms where nothing is under
// way.
constexpr int kPausesMs[] = {0, 1, 5, 10, 15, 20, 25};

int all() {
    Rank r;
    for (const auto& way : kWays) {
        for (const int pause_ms : kPausesMs) {
            for (const bool synchronized : {true, false}) {
                r.join();
                r.reduce_and_sync();
                usleep(25'000);
                r.all_reduce();
                if (synchronized) {
                    r.sync();
                }
                usleep(static_cast<useconds_t>(pause_ms) * 1000);
                way.end(r.comm);
            }
        }
    }
    say("done");
    return 0;
}

// A watchdog gives up on rank 1, which never calls the all_reduce.
int abort_of_a_hang() {
    Rank r;
    r.join();
    if (r.rank == 0) {
        r.all_reduce();
        usleep(static_cast<useconds_t>(client::number("HANG_MS", 0)) * 1000);
        abort_here(r.comm);
        say("done");
    }
    client::await("go");
    return 0;
}

// The last launches are graphs, and the program leaves as soon as they are done.
int graphs_at_the_end() {
    Rank r;
    r.join();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
    r.all_reduce();
    CUDA(cudaStreamEndCapture(r.stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    usleep(25'000);
    for (int i = 0; i < 3; ++i) {
        CUDA(cudaGraphLaunch(executable, r.stream));
    }
    r.sync();
    say("done");
    if (std::getenv("LEAVE_AT_ONCE")) {
        _exit(0);
    }
    return 0;
}

constexpr client::Scenario kScenarios[] = {
    {"all", all}, {"abort-of-a-hang", abort_of_a_hang}, {"graphs-at-the-end", graphs_at_the_end}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

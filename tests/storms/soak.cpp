// A job of days in minutes: steps, communicators, names of ranges and graphs that come and go. Says its resident memory
// after a tenth of it, and at the end.
#include "client.h"
#include "titantrace.h"

using client::Rank;
using client::say;

namespace {

long resident_kib() {
    FILE* file = std::fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;
    REQUIRE(file && std::fscanf(file, "%ld %ld", &pages, &resident) == 2);
    std::fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// A communicator of its own name, with a collective and a message to itself.
void passing_communicator(Rank& r, long number) {
    char name[64];
    std::snprintf(name, sizeof(name), "group of step %ld", number);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = name;
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    NCCL(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    NCCL(ncclAllReduce(r.send, r.receive, 16, ncclFloat32, ncclSum, comm, r.stream));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(r.send, 16, ncclFloat32, 0, comm, r.stream));
    NCCL(ncclRecv(r.receive, 16, ncclFloat32, 0, comm, r.stream));
    NCCL(ncclGroupEnd());
    r.sync();
    NCCL(ncclCommDestroy(comm));
}

void passing_graph(Rank& r) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
    r.all_reduce();
    CUDA(cudaStreamEndCapture(r.stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphLaunch(executable, r.stream));
    r.sync();
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
}

int soak() {
    const long steps = client::number("SOAK_STEPS", 1'000'000);
    Rank r;
    r.join();
    for (long step = 0; step < steps; ++step) {
        if (step == steps / 10) {
            say("early %ld KiB", resident_kib());
        }
        titan_step(step);
        if (step % 10 == 0) {
            char name[64];
            std::snprintf(name, sizeof(name), "iteration %ld", step);
            titan_span_begin(name);
            r.all_reduce();
            titan_span_end();
            passing_communicator(r, step);
            usleep(500);  // two new names each: some thousand a second are freed, and no job has as many
        }
        if (step % 100 == 0) {
            passing_graph(r);
        }
        r.reduce_and_sync();
    }
    say("late %ld KiB", resident_kib());
    client::await("go");
    r.leave();
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"soak", soak}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

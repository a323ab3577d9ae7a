// A program that marks its work with NVTX, as frameworks do; it knows of no tool.
#include <nvtx3/nvToolsExt.h>

#include <thread>

#include "client.h"

using client::Rank;
using client::say;

namespace {

// Ranges that overlap, of which another thread ends one, and a collective that lies in neither.
int overlapping() {
    Rank r;
    r.join();
    const nvtxRangeId_t first = nvtxRangeStartA("prefetch");
    const nvtxRangeId_t second = nvtxRangeStartA("copy");
    r.all_reduce();
    nvtxRangeEnd(first);
    std::thread([second] { nvtxRangeEnd(second); }).join();
    nvtxRangeEnd(second);  // once too often
    const nvtxRangeId_t open = nvtxRangeStartA("open");
    say("done %d", static_cast<int>(open != 0));
    r.leave();
    return 0;
}

// Two collectives, each in ranges of its own, and volume if asked for.
int ranges() {
    Rank r;
    r.join();
    nvtxRangePushA("forward");
    nvtxRangePushA("attention");
    r.all_reduce(1);
    nvtxRangePop();
    r.all_reduce(2);
    nvtxRangePop();
    for (int i = 0; i < client::number("MANY", 0); ++i) {
        nvtxRangePushA("volume");
        nvtxRangePop();
    }
    r.all_reduce(3);
    r.sync();
    say("done");
    client::await("go");
    r.leave();
    return 0;
}

// A helper process of a job: it uses neither NCCL nor CUDA.
int helper() {
    say("push %d", nvtxRangePushA("loading"));
    nvtxMarkA("loaded");
    say("pop %d", nvtxRangePop());
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"ranges", ranges}, {"overlapping", overlapping}, {"helper", helper}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

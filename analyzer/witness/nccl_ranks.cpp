// NCCL, and torchcomms, speak of ranks of their communicators and of pids on nodes that are told by address. Which
// ranks of the job are those?
#include "nccl_ranks.h"

#include <algorithm>

#include "of_this_run.h"

namespace titan::analyzer {
namespace {

int32_t world_of(const Run& run) {
    int32_t world = run.world_size;
    for (const Process& process : run.processes) {
        world = std::max(world, process.world_size);
    }
    if (run.processes.empty()) {
        for (const Testimony& said : run.testimony) {
            world = std::max({world, said.comm_size, said.watchdog || said.lost_a_peer ? said.rank + 1 : -1});
        }
    }
    return world;
}

void name_rank_of_nccl(const Run& run, int32_t world, Testimony& said) {
    const auto has_pid = [&](const Process& process) {
        return process.rank >= 0 && process.pid == said.pid && same_host(said, process);
    };
    const auto same = std::find_if(run.processes.begin(), run.processes.end(), has_pid);
    if (said.pid > 0 && same != run.processes.end() && std::count_if(same, run.processes.end(), has_pid) == 1) {
        said.rank = same->rank;
        return;
    }
    // Containers on different nodes use the same pids. In a communicator of all ranks the rank is that of the job.
    const auto recorded = std::find_if(run.processes.begin(), run.processes.end(),
                                       [&](const Process& process) { return process.rank == said.comm_rank; });
    const bool other_process = recorded != run.processes.end() && said.pid > 0 && recorded->pid != said.pid;
    if (said.comm_rank >= 0 && said.comm_size == world && !other_process) {
        said.rank = said.comm_rank;
    }
}

}  // namespace

bool speaks_of_communicators(const Testimony& said) {
    return said.witness.starts_with("NCCL") || said.witness == "torchcomms";
}

void name_ranks_of_nccl(Run& run) {
    const int32_t world = world_of(run);
    for (Testimony& said : run.testimony) {
        if (said.rank < 0 && speaks_of_communicators(said)) {
            name_rank_of_nccl(run, world, said);
        }
    }
    if (run.processes.empty()) {
        run.world_size = world;
    }
}

}  // namespace titan::analyzer

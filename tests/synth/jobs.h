// Ready-made jobs for tests, benchmarks and fuzz seeds.
#pragma once

#include "scenario.h"

namespace titan::synth {

// Data and tensor parallel training: tp pairs (tp:0 = ranks 0,1 ...), dp groups across them, `steps` steps of a tensor
// all_reduce in the forward, `buckets` gradient all_reduces of growing size on "dp:<tp rank>" and an all_gather on
// "world".
inline void write_training(Scenario& job, int steps, int buckets = 3, bool sync_every_step = true) {
    const int ranks = job.size();
    for (int pair = 0; pair < ranks / 2; ++pair) {
        job.communicator("tp:" + std::to_string(pair), {2 * pair, 2 * pair + 1});
    }
    for (int tp = 0; tp < 2; ++tp) {
        std::vector<int> members;
        for (int rank = tp; rank < ranks; rank += 2) {
            members.push_back(rank);
        }
        job.communicator("dp:" + std::to_string(tp), members);
    }
    job.every_rank([&](int rank, Program& program) {
        for (int step = 0; step < steps; ++step) {
            program.step(step).span("forward").all_reduce("tp:" + std::to_string(rank / 2), 4096);
            program.span("backward");
            for (int bucket = 0; bucket < buckets; ++bucket) {
                program.all_reduce("dp:" + std::to_string(rank % 2), 1024U << bucket);
            }
            program.span("optimizer").all_gather("world", 256);
            if (sync_every_step) {
                program.sync();
            }
        }
    });
}

// A bit of everything: groups of sends, a captured graph, kernels and waits on other streams, a proxy, a rank that
// sleeps.
inline Scenario mixed_job() {
    ScenarioOptions options;
    options.collectives = 32;
    options.method = format::GpuProgressMethod::kWrites;
    Scenario job(4, options);
    write_training(job, 5);
    Program sleep;
    sleep.sleep();
    job.program(2).insert_before("world", 3, sleep);
    job.program(0).insert_before("world", 2, Program().group_start().send("tp:0", 1).recv("tp:0", 1).group_end());
    job.program(1).insert_before("world", 2, Program().group_start().send("tp:0", 0).recv("tp:0", 0).group_end());
    job.program(1).insert_before(
        "world", 1,
        Program().capture(2).all_reduce("world").end_capture().kernel("_Z4gemmPf", 7).record(3, 7).wait(3, 0x51));
    job.program(0).insert_before(
        "world", 2,
        Program().kernel("_ZN2at6native3addILi4EEEvi").record(4, 0x51).wait(4, 7).hanging_kernel("_Z4spinv", 7));
    job.play();
    job.ring(0).add_channel(0, format::ChannelRole::kProxySend);
    return job;
}

}  // namespace titan::synth

// Ready-made jobs for tests, benchmarks and fuzz seeds.
#pragma once

#include "scenario.h"

namespace titan::synth {

// Data and tensor parallel training: tp pairs (tp:0 = ranks 0,1 ...), dp groups across them, `steps` steps of a tensor
// all_reduce in the forward, `buckets` gradient all_reduces of growing size on "dp:<tp rank>" and an all_gather on "world".
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

}  // namespace titan::synth

// A small job with a fault, as seeds.
#pragma once

#include <cstring>
#include <vector>

#include "jobs.h"

namespace titan::fuzz {

inline std::vector<unsigned char> as_bytes(const std::vector<std::byte>& bytes) {
    std::vector<unsigned char> copy(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
}

inline synth::Scenario seed_job() {
    synth::ScenarioOptions options;
    options.collectives = 32;
    synth::Scenario job(4, options);
    synth::write_training(job, 5);
    synth::Program sleep;
    sleep.sleep();
    job.program(2).insert_before("world", 3, sleep);
    job.program(0).insert_before("world", 2,
                                 synth::Program().group_start().send("tp:0", 1).recv("tp:0", 1).group_end());
    job.program(1).insert_before("world", 2,
                                 synth::Program().group_start().send("tp:0", 0).recv("tp:0", 0).group_end());
    job.play();
    return job;
}

}  // namespace titan::fuzz

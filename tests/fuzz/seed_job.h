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
    options.method = format::GpuProgressMethod::kWrites;
    synth::Scenario job(4, options);
    synth::write_training(job, 5);
    synth::Program sleep;
    sleep.sleep();
    job.program(2).insert_before("world", 3, sleep);
    job.program(0).insert_before("world", 2,
                                 synth::Program().group_start().send("tp:0", 1).recv("tp:0", 1).group_end());
    job.program(1).insert_before("world", 2,
                                 synth::Program().group_start().send("tp:0", 0).recv("tp:0", 0).group_end());
    job.program(1).insert_before("world", 1,
                                 synth::Program()
                                     .capture(2)
                                     .all_reduce("world")
                                     .end_capture()
                                     .kernel("_Z4gemmPf", 7)
                                     .record(3, 7)
                                     .wait(3, 0x51));
    job.program(0).insert_before(
        "world", 2,
        synth::Program().kernel("_ZN2at6native3addILi4EEEvi").record(4, 0x51).wait(4, 7).hanging_kernel("_Z4spinv", 7));
    job.play();
    job.ring(0).add_channel(0, format::ChannelRole::kProxySend);
    return job;
}

}  // namespace titan::fuzz

// Timed jobs drawn at random: healthy ones, and ones with a fault that the diagnosis has to name.
#pragma once

#include <random>

#include "timing_job.h"

namespace titan::test {

class TimedDraw {
  public:
    explicit TimedDraw(uint64_t seed) : random_(seed), seed_(seed) {}

    synth::TimedOptions healthy() {
        synth::TimedOptions options;
        options.seed = seed_;
        options.hosts = pick(1, 4);
        options.ranks_per_host = pick(0, 1) == 0 ? 2 : 4;
        options.tp = options.hosts * options.ranks_per_host > 2 && pick(0, 2) != 0 ? 2 : 1;
        options.steps = pick(60, 90);
        options.first_step = pick(0, 1000);
        options.step_ms = pick(40, 500);
        options.clock_offset_ms = pick(0, 50);
        options.clock_drift_ppm = pick(0, 30);
        options.clock_jump_ms = options.hosts > 1 && pick(0, 9) == 0 ? 200 : 0;
        const int method = pick(0, 5);
        options.method = method == 0   ? format::GpuProgressMethod::kOff
                         : method <= 2 ? format::GpuProgressMethod::kWrites
                                       : format::GpuProgressMethod::kTiming;
        options.step_marks = pick(0, 5) != 0;
        return options;
    }

    synth::TimedOptions faulty() {
        synth::TimedOptions options = healthy();
        synth::TimedFault& fault = options.fault;
        options.step_marks = true;
        fault.kind = static_cast<synth::TimedFault::Kind>(pick(1, 6));
        if (fault.kind == synth::TimedFault::kSlowLink) {
            options.hosts = 6;
            options.dp_hosts = 2;
            fault.host = 2 * pick(0, 2);
        }
        if (options.hosts * options.ranks_per_host < 4) {
            options.hosts = 2;
        }
        fault.rank = pick(0, options.hosts * options.ranks_per_host - 1);
        fault.from_step = pick(0, 3) == 0 ? 0 : pick(12, options.steps / 2);
        fault.share = 0.15 + 0.01 * pick(0, 40);
        const bool of_link =
            fault.kind == synth::TimedFault::kSlowLink || fault.kind == synth::TimedFault::kSlowCollective;
        if (of_link || fault.kind == synth::TimedFault::kSlowKernels || fault.kind == synth::TimedFault::kSlowSync) {
            // Nobody can tell without having seen the GPU.
            options.method = pick(0, 2) == 0 ? format::GpuProgressMethod::kWrites : format::GpuProgressMethod::kTiming;
        }
        if (of_link) {
            fault.from_step =
                fault.kind == synth::TimedFault::kSlowCollective ? pick(12, options.steps / 2) : fault.from_step;
            options.step_ms = pick(40, 150);
            fault.share = pick(5, 10);
        } else if (pick(0, 2) == 0) {
            fault.pattern = synth::TimedFault::kPeriodic;
            fault.every = pick(3, 6);
            fault.share *= 2;
        } else if (pick(0, 3) == 0) {
            fault.pattern = synth::TimedFault::kOneOff;
            fault.from_step = pick(5, options.steps - 5);
            fault.share = std::max(7.0, 3200 / options.step_ms);
        }
        if (options.method == format::GpuProgressMethod::kWrites && !of_link) {
            fault.share = std::max(fault.share, 30 / options.step_ms);  // starts are seen up to 2 ms late
        }
        return options;
    }

    int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  private:
    std::mt19937_64 random_;
    uint64_t seed_;
};

}  // namespace titan::test

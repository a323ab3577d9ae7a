// What a run gets done: steps and tokens per second, and the share of the GPUs' arithmetic that the model uses (MFU).
#pragma once

#include <optional>
#include <string_view>

namespace titan::analyzer {

// 0: not told.
struct WorkOfAStep {
    double tokens_per_step = 0;  // of all ranks together
    double flops_per_token = 0;  // forward and backward
    double peak_tflops = 0;      // of one GPU
};

struct Throughput {
    int ranks = 0;  // of the job
    double step_ns = 0;
    std::optional<double> tokens_per_s;  // of all ranks
    std::optional<double> mfu;           // 1: all that the GPUs can
    double peak_tflops = 0;              // of one GPU, 0 unknown

    double steps_per_s() const { return 1e9 / step_ns; }
};

// `step_ns` and `ranks` are above 0.
Throughput throughput_of(const WorkOfAStep& work, double step_ns, int ranks);

// BF16 without sparsity, by NVIDIA's data sheets (FP16 where a GPU has no BF16); 0: not known. `gpus` as in a dump: "8
// x NVIDIA H100 80GB HBM3". Thread-safe.
double peak_tflops_of(std::string_view gpus);

}  // namespace titan::analyzer

// Tokens per second, MFU, and what GPUs can do by their names.
#include <doctest/doctest.h>

#include "summary.h"

using titan::analyzer::peak_tflops_of;
using titan::analyzer::Throughput;
using titan::analyzer::throughput_of;

TEST_CASE("throughput: what is not told is left out") {
    const Throughput steps = throughput_of({}, 5e8, 4);
    CHECK(steps.steps_per_s() == doctest::Approx(2));
    CHECK(!steps.tokens_per_s);
    CHECK(!steps.mfu);
    CHECK(!throughput_of({.tokens_per_step = 100, .flops_per_token = 6e9}, 5e8, 4).mfu);
    CHECK(!throughput_of({.flops_per_token = 6e9, .peak_tflops = 100}, 5e8, 4).tokens_per_s);
}

TEST_CASE("throughput: a model of 10^9 parameters on four GPUs") {
    const Throughput all =
        throughput_of({.tokens_per_step = 10'000, .flops_per_token = 6e9, .peak_tflops = 100}, 5e8, 4);
    CHECK(*all.tokens_per_s == doctest::Approx(20'000));
    CHECK(*all.mfu == doctest::Approx(0.3));  // 120 of 400 TFLOPS
}

TEST_CASE("throughput: peaks by the names of /proc/driver/nvidia") {
    CHECK(peak_tflops_of("8 x NVIDIA H100 80GB HBM3") == 989.4);
    CHECK(peak_tflops_of("2 x NVIDIA H100 PCIe") == 756);
    CHECK(peak_tflops_of("4 x NVIDIA A100-SXM4-80GB") == 312);
    CHECK(peak_tflops_of("4 x NVIDIA GB200") == 2500);
    CHECK(peak_tflops_of("8 x NVIDIA B200") == 2250);
    CHECK(peak_tflops_of("1 x NVIDIA L40") == 181);
    CHECK(peak_tflops_of("1 x NVIDIA A10") == 125);
    CHECK(peak_tflops_of("1 x NVIDIA GeForce RTX 4090") == 0);
    CHECK(peak_tflops_of("") == 0);
}

// Where threads stood at many moments (TITANTRACE_STACK_SAMPLES_S), in words.
#pragma once

#include <cstdint>
#include <vector>

namespace titan::analyzer {

// Numbers are texts of the process.
struct SampledStack {
    int32_t thread = 0;
    uint32_t name = 0;                // of the thread
    std::vector<uint32_t> frames;     // innermost first; empty: the thread ran, and nobody knows where
    std::vector<uint32_t> libraries;  // that each came with, 0 the program
};

struct StackSample {
    uint32_t stack = 0;  // index of the list of stacks; one that is not in it is unknown
    int64_t step = -1;
    int64_t at_ns = 0;
};

struct StackSamples {
    std::vector<SampledStack> stacks;
    std::vector<StackSample> samples;  // oldest first
};

}  // namespace titan::analyzer

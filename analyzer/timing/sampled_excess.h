// What sampled stacks tell of a late rank, as a value.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace titan::analyzer {

// A function that the samples of ranks show more often than those of their peers.
struct SampledExcess {
    std::vector<int> ranks;
    std::string thread;  // "pt_autograd"; empty: the main thread
    std::string frame;   // "load at data.py:88"
    size_t samples = 0;
    size_t of = 0;
    size_t peers_samples = 0;
    size_t peers_of = 0;
};

// "in 38 of 60 samples rank 3 is in load at data.py:88; its peers in 2 of 420".
std::string excess_text(const SampledExcess& excess);

}  // namespace titan::analyzer

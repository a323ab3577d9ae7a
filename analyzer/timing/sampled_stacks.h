// Where ranks stood, by their sampled stacks, beside those that do the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"
#include "timing.h"

namespace titan::analyzer {

// Indexes of processes with samples that do the same work as those ranks and are none of them; where there are none,
// of all others.
std::vector<size_t> sampled_peers(const Run& run, const std::vector<int>& ranks);

// "main", or a thread's name without its number.
std::string sampled_thread(const Process& process, const SampledStack& stack);

// The function that these ranks are in far more often than their peers, if any; samples of that step and later alone.
std::optional<SampledExcess> sampled_excess(const Run& run, const std::vector<int>& ranks,
                                            std::optional<int64_t> from_step);

// "in 38 of 60 samples rank 3 is in load at data.py:88; its peers in 2 of 420".
std::string excess_text(const SampledExcess& excess);

}  // namespace titan::analyzer

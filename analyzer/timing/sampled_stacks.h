// Where ranks stood, by their sampled stacks, beside those that do the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run.h"
#include "sampled_excess.h"
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

}  // namespace titan::analyzer

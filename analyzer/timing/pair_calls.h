// How many of a run's calls are sends and receives. A receive is handed over long before its data is there, so those do
// not tell who is late.
#pragma once

#include <cstdint>
#include <string>

#include "run.h"

namespace titan::analyzer {

struct PairCalls {
    uint64_t all = 0;
    uint64_t pairs = 0;
    bool mostly() const { return pairs > all / 2; }
    bool nearly_alone() const { return pairs > all - all / 10; }
};

PairCalls count_pair_calls(const Run& run);
// That late ranks cannot be seen in them.
std::string unseen_in_pairs_text(const PairCalls& calls);

}  // namespace titan::analyzer

// The attempts of a run that left something, as far as directories tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/result.h"
#include "load_options.h"

namespace titan::analyzer {

struct Attempts {
    std::string run;               // the wanted one, else the newest; empty where no directory tells
    std::vector<int32_t> numbers;  // oldest first
};

// The wanted one alone, or those of dumps, rings and journals; of logs (choose_logs.h) where there are no others.
// Error: a path that does not exist.
Result<Attempts> attempts_of(const LoadOptions& options);

}  // namespace titan::analyzer

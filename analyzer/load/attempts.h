// The attempts that left something, as far as directories tell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/result.h"
#include "load_options.h"
#include "starts.h"

namespace titan::analyzer {

struct AttemptOf {
    std::string run;                       // empty where no directory tells, as of the following
    std::optional<int32_t> number;         // nothing: the newest
    std::shared_ptr<const Start> start{};  // of several in its directory
};

// Oldest first. The wanted one alone, or those of the wanted run, else of the newest: of dumps, rings and journals; of
// logs (choose_logs.h) where there are no others. Error: a path that does not exist.
Result<std::vector<AttemptOf>> attempts_of(const LoadOptions& options);
// The attempts of all runs found.
Result<std::vector<AttemptOf>> all_attempts(const LoadOptions& options);

}  // namespace titan::analyzer

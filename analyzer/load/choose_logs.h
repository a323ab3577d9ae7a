// Which logs of torchtitan's structured logger belong to one start of the job: every process writes a file of its own,
// and all starts write into one directory.
#pragma once

#include <string>
#include <vector>

#include "host/result.h"
#include "load_options.h"
#include "run.h"

namespace titan::analyzer {

struct ChosenLogs {
    int32_t attempt = 0;
    std::vector<std::string> paths;
    std::vector<Warning> warnings;
};

// Logs of the wanted attempt; of the newest if none is given. A new attempt begins with a log that begins after all
// others have fallen silent, and where a process of the same role and rank starts again. Error: none is there, or the
// attempt is not.
Result<ChosenLogs> choose_logs(const std::vector<std::string>& paths, const LoadOptions& options);

}  // namespace titan::analyzer

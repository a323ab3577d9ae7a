// A job that is started again under one run id, where no launcher counts, leaves its files in the directory of one
// attempt. Its starts are told apart by their processes: those of a start began after the last sign of life of all
// earlier ones, and one of them has a rank that an earlier one had.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "discover.h"
#include "host/result.h"
#include "journals.h"
#include "load_options.h"

namespace titan::analyzer {

struct Start {
    int32_t number = 1;  // from 1 on, the oldest
    int32_t count = 1;   // of the starts there
    int64_t began_ns = 0;
    int64_t newest_ns = 0;
    std::set<ProcessKey> processes;
    std::set<std::string> paths;  // of dumps, rings and journals
};

// Oldest first. Empty: the files do not tell of more than one.
std::vector<Start> starts_of(const CandidateGroup& group);

// Leaves in each group only the wanted start, the newest if none is given. Error: there is no such start.
std::optional<Error> keep_start(std::vector<CandidateGroup>& groups, const LoadOptions& options);

// --- The attempts that left something, as far as directories tell.

struct AttemptOf {
    std::string run;                       // empty where no directory tells, as of the following
    std::optional<int32_t> number;         // nothing: the newest
    std::shared_ptr<const Start> start{};  // of several in its directory
    std::vector<std::string> paths{};      // all that it left; empty: not known
};

// Oldest first. The wanted one alone, or those of the wanted run, else of the newest: of dumps, rings and journals; of
// logs (choose_logs.h) where there are no others. Error: a path that does not exist.
Result<std::vector<AttemptOf>> attempts_of(const LoadOptions& options);

// The attempts of all runs found.
Result<std::vector<AttemptOf>> all_attempts(const LoadOptions& options);

}  // namespace titan::analyzer

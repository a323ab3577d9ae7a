// Chooses the directories and the processes that belong to the wanted run and attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "discover.h"
#include "host/result.h"
#include "load_options.h"
#include "rings.h"
#include "run.h"

namespace titan::analyzer {

using RunKey = std::pair<std::string, int32_t>;

// It has been chosen, and moved away.
inline bool is_taken(const CandidateGroup& group) { return group.files.empty() && group.journals.empty(); }
// Directories of the wanted run; where directories do not tell, everything, and the headers decide later.
Result<std::vector<CandidateGroup>> choose_groups(Discovery& discovery, const LoadOptions& options);
// torchrun counts a restart only on the node that lost a rank: one start of a job can lie in the directories of several
// attempts. Those in which something was written since the first of `processes`, which are of `chosen`, started.
std::vector<CandidateGroup> attempts_beside(Discovery& discovery, const CandidateGroup& chosen,
                                            const std::vector<Process>& processes, const LoadOptions& options);
// One start of one run, as the records themselves name it.
std::vector<Process> choose_run(std::vector<Process> processes, const LoadOptions& options,
                                std::vector<Warning>& warnings);
// Judges by the records; by the directories if no record is of this host.
std::optional<RunKey> key_of_run(const std::vector<Process>& processes, const std::vector<CandidateGroup>& groups);
// A run of this node that ended, or goes on, after everything that was dumped.
bool is_newer(const RingRun& run, const std::vector<CandidateGroup>& groups);
// When the first of the processes started, INT64_MAX unknown.
int64_t start_of(const std::vector<Process>& processes);

// --- Which logs of torchtitan's structured logger belong to one start of the job: every process writes a file of its
// own, and all starts write into one directory.

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

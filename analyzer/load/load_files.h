// Loads the processes of one run and attempt from paths: files are found, grouped by run and attempt, read in parallel,
// and chosen. A file that cannot be read becomes a warning; only "nothing usable at all" is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "choose_run.h"
#include "fr_groups.h"
#include "host/result.h"
#include "load_options.h"
#include "run.h"

namespace titan::analyzer {

// Processes of one run and attempt, before anything is known of how they belong together.
struct LoadedProcesses {
    std::vector<Process> processes;
    std::vector<Process> journaled;     // no dump and no ring is of these
    std::vector<std::string> problems;  // unreadable files
    std::vector<Warning> warnings;
    std::vector<Testimony> testimony;
    std::unordered_map<uint64_t, std::vector<int32_t>> group_ranks;  // PyTorch's process groups, by id
};
// All that is wanted of one run and attempt, and which that is.
struct LoadedRun {
    LoadedProcesses found;
    std::optional<RunKey> key;
    std::vector<std::string> journals;  // of that run and attempt
    ChosenLogs logs;                    // where nothing else is there
    bool any = false;                   // something was readable, perhaps of another run
    int32_t start = 0;                  // where several are in one directory (starts.h): which of how many
    int32_t starts = 0;
    size_t passed_over = 0;  // attempts and runs in directories of their own, where the newest was chosen
};

Result<LoadedRun> load_files(const LoadOptions& options, GroupRanks& group_ranks);
// Explains why there is nothing to analyze.
Error nothing_usable(const LoadedRun& loaded);

Result<LoadedProcesses> load_processes(const LoadOptions& options);

// --- Rings that lie on this node beside the dumps of a run.

// Ranks of this run whose rings lie on this node: those without a dump, and those that died after their last dump.
void add_node_rings(const std::optional<RunKey>& key, std::vector<Process>& processes, const LoadOptions& options);

}  // namespace titan::analyzer

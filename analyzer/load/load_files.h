// The processes of one run and attempt as its files and this node's rings tell of them: what load_run() and
// load_processes() have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flight_recorder.h"
#include "load.h"

namespace titan::analyzer {

using RunKey = std::pair<std::string, int32_t>;

// All that is wanted of one run and attempt, and which that is.
struct LoadedRun {
    LoadedProcesses found;
    std::optional<RunKey> key;
    bool any = false;  // something was readable, perhaps of another run
};

format::Result<LoadedRun> load_files(const LoadOptions& options, GroupRanks& group_ranks);
// Ranks of this run whose rings lie on this node: those without a dump, and those that died after their last dump.
void add_node_rings(const std::optional<RunKey>& key, std::vector<Process>& processes, const LoadOptions& options);
// Why there is nothing to analyze.
format::Error nothing_usable(const LoadedRun& loaded);

}  // namespace titan::analyzer

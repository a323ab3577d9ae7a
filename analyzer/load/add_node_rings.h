// Rings that lie on this node beside the dumps of a run.
#pragma once

#include <optional>
#include <vector>

#include "choose_run.h"
#include "load_options.h"

namespace titan::analyzer {

// Ranks of this run whose rings lie on this node: those without a dump, and those that died after their last dump.
void add_node_rings(const std::optional<RunKey>& key, std::vector<Process>& processes, const LoadOptions& options);

}  // namespace titan::analyzer

// Processes of which a journal tells.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "journals.h"
#include "load_options.h"
#include "run.h"

namespace titan::analyzer {

// The processes that are not in `known`, and if `only` names some, only those. Damage becomes a problem.
std::vector<Process> load_journals(const std::vector<std::string>& paths, const std::vector<Process>& known,
                                   const std::set<ProcessKey>& only, const LoadOptions& options,
                                   std::vector<std::string>& problems);

// True if the file begins with a process that started after that time. Reads its beginning alone.
bool begins_after(const std::string& path, int64_t time_ns);

}  // namespace titan::analyzer

// The attempts of a run that left records, and where their time went.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "goodput.h"
#include "load_options.h"

namespace titan::analyzer {

// Those of the wanted run, or the wanted attempt alone; oldest first. `ranks`: only these, all where it is empty.
// `newest`: that one, where it is read already. Calls note(problem) for an attempt, or a part of one, that cannot be
// read. Error: nothing can.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const std::set<int>& ranks,
                                                const std::optional<AttemptTimes>& newest, const Write& note);

}  // namespace titan::analyzer

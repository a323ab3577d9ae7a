// The attempts of a run that left records, and where their time went.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "goodput.h"
#include "load_options.h"

namespace titan::analyzer {

struct WantedAttempts {
    std::set<int> ranks{};                 // only these, all where it is empty
    std::optional<AttemptTimes> newest{};  // where it is read already
    // All runs with this label session_tag (titantrace.label); empty: the wanted run, or only the wanted attempt.
    std::string session{};
    ReadProgress progress{};
};

// Oldest first. Calls note(problem) for an attempt, or a part of one, that cannot be read. Error: nothing can.
Result<std::vector<AttemptTimes>> read_attempts(LoadOptions load, const WantedAttempts& wanted, const Write& note);

}  // namespace titan::analyzer

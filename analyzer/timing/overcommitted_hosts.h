// Hosts whose processors do not suffice for what runs on them: their ranks are late, and it is nobody's fault among
// them.
#pragma once

#include <string>
#include <vector>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

struct OvercommittedHost {
    std::string host;
    std::vector<int> ranks;  // ranks on it
    std::string text;        // for people, with the figures of the rank that waits most
};

// Sorted by name.
std::vector<OvercommittedHost> overcommitted_hosts(const Run& run);

// Weighs a finding of lateness: on an overcommitted host it is possible at most. If nothing is recorded about the
// processors, it says so.
void weigh_processors(const Run& run, Finding& finding);

}  // namespace titan::analyzer

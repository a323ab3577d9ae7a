// Hosts with fewer processors than their processes need: their ranks are late, and none of them is to blame.
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

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
    std::vector<int> ranks;  // on it
    std::string text;        // in words, with the figures of the rank that waits most
};

// By name.
std::vector<OvercommittedHost> overcommitted_hosts(const Run& run);

// Of lateness: on an overcommitted host it is possible at most. Where nothing is on record about the processors, it
// says so.
void weigh_processors(const Run& run, Finding& finding);

}  // namespace titan::analyzer

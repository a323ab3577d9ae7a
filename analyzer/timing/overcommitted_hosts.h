// Hosts with fewer processors than their processes need: their ranks are late, and none of them is to blame.
#pragma once

#include <optional>
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

// How long the threads of this process were ready to run and got no processor, since each began; 0 where that is a
// small part of the time that they wanted one, or unknown.
int64_t lacked_processors_ns(const Process& process);

// The share of the time that its threads were ready to run in which they got no processor; 0 where that was short.
double delayed_share(const Processors& seen);

// What costs such a share of the time of these ranks may be that their threads got no processor. Then says so.
std::optional<std::string> explained_by_processors(const Run& run, const std::vector<int>& ranks, double share);

// Weighs a finding of lateness: on an overcommitted host it is possible at most. If nothing is recorded about the
// processors, it says so.
void weigh_processors(const Run& run, Finding& finding);

}  // namespace titan::analyzer

// The table of lateness, for people and for machines.
#pragma once

#include <string>

#include "document.h"
#include "run.h"
#include "timing.h"

namespace titan::analyzer {

// Reports the ranks that cost most, or all.
std::string straggler_report(const Run& run, const Timing& timing, bool all_ranks, const TextStyle& style);
std::string straggler_json(const Run& run, const Timing& timing);

}  // namespace titan::analyzer

// The table of lateness, for people and for machines.
#pragma once

#include <string>

#include "run.h"
#include "stragglers.h"

namespace titan::analyzer {

struct StragglerTableOptions {
    size_t ranks = 40;  // the ones that cost most; 0: all
};

std::string straggler_table(const Run& run, const Timing& timing, const StragglerTableOptions& options);
std::string straggler_json(const Run& run, const Timing& timing);

}  // namespace titan::analyzer

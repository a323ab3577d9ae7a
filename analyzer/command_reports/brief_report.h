// What a run did, in three lines: its steps, its longest spans, its metrics.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "records.h"

namespace titan::analyzer {

// Sums up these ranks, or all if none is given, without lines that have nothing on record. Calls note(problem) for each
// record that could not be read.
std::vector<std::string> brief_lines(const Run& run, const std::set<int>& ranks, const Write& note,
                                     const ReadProgress& progress);

}  // namespace titan::analyzer

// Where nobody watched the GPU: which of the calls that were issued cannot have ended.
#pragma once

#include <vector>

#include "match.h"
#include "run.h"
#include "stream_order.h"

namespace titan::analyzer {

// By process and entry, by what all processes tell: what nobody watched and cannot have ended is unfinished.
std::vector<std::vector<Progress>> progress_of_all(const Run& run, const std::vector<Mismatch>& mismatches);

}  // namespace titan::analyzer

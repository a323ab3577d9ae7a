// Finds issued calls that cannot have ended, where nobody watched the GPU.
#pragma once

#include <vector>

#include "match.h"
#include "play.h"
#include "run.h"
#include "stream_order.h"

namespace titan::analyzer {

// Calls that never end because their members disagree.
std::vector<MeetingKey> refused_meetings(const std::vector<Mismatch>& mismatches);

// Index: process and entry. Judged by all processes: a call that nobody watched and that cannot have ended is
// unfinished.
std::vector<std::vector<Progress>> progress_of_all(const Run& run, const std::vector<Mismatch>& mismatches);

}  // namespace titan::analyzer

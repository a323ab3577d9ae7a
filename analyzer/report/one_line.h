// A diagnosis in one line, for a chat or a log.
#pragma once

#include <string>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// "run job-17 attempt 0: rank_not_arrived (certain): rank 3 ... is in step at train.py:142; on node-0 (pid 4711); since
// 2026-11-22 08:27:56 +01:00; and 2 more findings". Without the end of a line, and however long the names: short enough
// for one message.
std::string one_line(const Run& run, const Diagnosis& diagnosis);

}  // namespace titan::analyzer

// What a run did, in three lines: its steps, its longest spans, its metrics.
#pragma once

#include <string>
#include <vector>

#include "goodput.h"
#include "step_metrics.h"
#include "summary.h"

namespace titan::analyzer {

// Without lines that have nothing on record.
std::vector<std::string> brief_lines(const Summary& summary, const StepMetrics& metrics, const AttemptTimes& times);

}  // namespace titan::analyzer

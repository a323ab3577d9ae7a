// What takes the time of a run, and its metrics: tables, or JSON Lines.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "run.h"
#include "summary.h"

namespace titan::analyzer {

struct SummaryReportOptions {
    SummaryOptions what;
    std::set<int> ranks;  // empty: all
    size_t most = 40;     // rows of each kind, 0: all
    bool json = false;
};

// Calls write(text) with whole lines. False: there is nothing to sum up.
bool report_summary(const Run& run, const SummaryReportOptions& options,
                    const std::function<void(const std::string&)>& write);

}  // namespace titan::analyzer

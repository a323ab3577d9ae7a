// What takes the time of a run, and its metrics: tables, or JSON Lines.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "host/json_value.h"
#include "host/listing.h"
#include "records.h"
#include "run.h"
#include "summary.h"

namespace titan::analyzer {

struct SummaryReportOptions {
    SummaryOptions what;
    std::set<int> ranks;  // empty: all
    size_t most = 40;     // rows of each kind, 0: all
    bool json = false;
    ListingOptions table;
    ReadProgress progress{};
};

// A row, but for the list of its ranks.
Json summary_row_json(const Summary& summary, const SummaryRow& row);

// Calls write(text) with whole lines, and note(problem) for what could not be read. False: there is nothing to sum up.
bool report_summary(const Run& run, const SummaryReportOptions& options, const Write& write, const Write& note);

}  // namespace titan::analyzer

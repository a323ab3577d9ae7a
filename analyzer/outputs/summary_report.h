// What takes the time of a run, and its metrics: tables, or JSON Lines.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "goodput.h"
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

// --- The attempts of a run, and how much of their time is training that is kept: a table, or JSON Lines.

// A list of rows: the attempts, oldest first, then what is kept of all of them.
Json goodput_json(const std::vector<AttemptTimes>& attempts);

// Oldest first. Calls write(text) with whole lines.
void report_goodput(const std::vector<AttemptTimes>& attempts, bool json, const ListingOptions& table,
                    const std::function<void(const std::string&)>& write);

}  // namespace titan::analyzer

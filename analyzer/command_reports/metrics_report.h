// Metrics by step, joined over ranks: a table, or JSON Lines.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "host/listing.h"
#include "records.h"
#include "run.h"

namespace titan::analyzer {

struct MetricsOptions {
    std::set<int> ranks;  // empty: all
    std::string name;     // empty: all
    std::optional<std::pair<int64_t, int64_t>> steps;
    size_t last = 0;  // steps, 0: all
    bool json = false;
    ListingOptions table;
    ReadProgress progress{};
};

// Calls write(text) with whole lines, and note(problem) for what could not be read. False: there are none.
bool report_metrics(const Run& run, const MetricsOptions& options, const Write& write, const Write& note);

}  // namespace titan::analyzer

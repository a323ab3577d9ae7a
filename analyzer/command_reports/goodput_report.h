// The attempts of a run, and how much of their time is training that is kept: a table, or JSON Lines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "goodput.h"
#include "host/json_value.h"
#include "host/listing.h"

namespace titan::analyzer {

// A list of rows: the attempts, oldest first, then what is kept of all of them.
Json goodput_json(const std::vector<AttemptTimes>& attempts);
// Oldest first. Calls write(text) with whole lines.
void report_goodput(const std::vector<AttemptTimes>& attempts, bool json, const ListingOptions& table,
                    const std::function<void(const std::string&)>& write);

}  // namespace titan::analyzer

// All that the HTML report shows, as one JSON value. What it says of a run comes from the rungs below: here it is
// chosen, folded where ranks are alike, and cut where the page of a thousand ranks would grow beyond some megabytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "finding.h"
#include "goodput.h"
#include "host/json_value.h"
#include "run.h"

namespace titan::analyzer {

// The version of what page_data() gives.
inline constexpr int kPageSchema = 2;

struct PageOptions {
    DiagnoseOptions diagnose;
    std::string version;  // of titan-analyze
    std::string input;    // the records, as named on a command line and quoted for the shell
    // All attempts of the run, oldest first, when the one that is looked at is read already.
    std::function<std::vector<AttemptTimes>(const AttemptTimes& of_run)> attempts;
};

// docs/use/report.md says what is in it. A section without content has the reason as "none".
Json page_data(const Run& run, const Diagnosis& diagnosis, const PageOptions& options);

}  // namespace titan::analyzer

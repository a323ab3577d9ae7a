// Two sides of a comparison, for people and for machines.
#pragma once

#include <optional>
#include <string>

#include "comparison.h"
#include "document.h"

namespace titan::analyzer {

struct CompareReportOptions {
    std::optional<double> fail_if_slower;  // as a share of 1
    bool all = false;                      // also rows that do not differ
};

Document compare_document(const Side& before, const Side& after, const Comparison& comparison,
                          const CompareReportOptions& options);
std::string compare_json(const Side& before, const Side& after, const Comparison& comparison,
                         const CompareReportOptions& options);

}  // namespace titan::analyzer

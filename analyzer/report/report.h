// Writers of a diagnosis. They see findings and the run's outline, and decide nothing.
#pragma once

#include <string>

#include "diagnosis_document.h"
#include "finding.h"
#include "run.h"

namespace titan::analyzer {

std::string layout_report(const Run& run, const TextStyle& style);
std::string layout_json_report(const Run& run);
// Settings and versions of all ranks: what differs, then what is the same.
std::string config_report(const Run& run, const TextStyle& style);
std::string config_json_report(const Run& run);
std::string json_report(const Run& run, const Diagnosis& diagnosis);

}  // namespace titan::analyzer

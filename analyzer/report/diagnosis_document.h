// A diagnosis as a document: the verdict first, then why, then who does what, then what could not be seen, then what to
// do.
#pragma once

#include <string>

#include "document.h"
#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// `input` names the records on a command line.
Document diagnosis_document(const Run& run, const Diagnosis& diagnosis, const std::string& input);
std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style);

}  // namespace titan::analyzer

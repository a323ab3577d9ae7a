// A diagnosis as a document: the verdict first, then why, then who does what, then what could not be seen.
#pragma once

#include <string>

#include "document.h"
#include "finding.h"
#include "run.h"

namespace titan::analyzer {

Document diagnosis_document(const Run& run, const Diagnosis& diagnosis);
// Then what to do: commands for the place where the records lie, which are no part of the diagnosis. `input` names it
// on a command line.
Document advised_document(const Run& run, const Diagnosis& diagnosis, const std::string& input);
// With style.rows a screenful, which says how to see the rest.
std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style);

}  // namespace titan::analyzer

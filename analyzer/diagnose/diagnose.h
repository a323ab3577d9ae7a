// Turns a run into findings.
#pragma once

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

Diagnosis diagnose(const Run& run, const DiagnoseOptions& options = {});

}  // namespace titan::analyzer

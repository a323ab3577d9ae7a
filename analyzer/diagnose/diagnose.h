// Turns a run into findings.
#pragma once

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

Diagnosis diagnose(const Run& run, const DiagnoseOptions& options = {});
// Diagnoses all worlds of a run (Run::beside): `run` becomes the one whose diagnosis says most, and what the others
// come to is a warning of it.
Diagnosis diagnose_worlds(Run& run, const DiagnoseOptions& options);

}  // namespace titan::analyzer

// What the kernel's OOM killer did to a rank, its children or its neighbours.
#pragma once

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

// Adds as evidence what it killed in the control group of the rank; of a rank that is gone, also what its neighbours on
// the host saw it kill at that time.
void tell_out_of_memory(const Run& run, const Process& process, Finding& finding);

}  // namespace titan::analyzer

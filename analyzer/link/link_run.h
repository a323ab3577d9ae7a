// Joins processes to a run, and says what of it could not be seen.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Joins the processes: communicators, their members, global ranks, missing ranks, the layout. Pure.
void link(Run& run);

// Ranks without a record, entries that are lost.
void warn_of_gaps(Run& run);

}  // namespace titan::analyzer

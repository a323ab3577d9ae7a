// Joins processes to a run.
#pragma once

#include "run.h"

namespace titan::analyzer {

// Joins the processes: communicators, their members, global ranks, missing ranks, the layout. Pure.
void link(Run& run);

}  // namespace titan::analyzer

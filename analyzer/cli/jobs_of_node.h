// The jobs whose rings lie on this node, for somebody who named no records, or none that are there.
#pragma once

#include "rings.h"

namespace titan::analyzer {

// Says on stderr which jobs live here or left rings, and what to type for each; nothing where there is none.
void say_jobs_of_node(const RingDirectories& directories);

}  // namespace titan::analyzer

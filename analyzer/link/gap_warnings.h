// Warnings about what could not be seen: ranks without a record, entries that are lost.
#pragma once

#include "run.h"

namespace titan::analyzer {

void warn_of_gaps(Run& run);

}  // namespace titan::analyzer

// Files of witnesses that are known and not read.
#pragma once

#include "run.h"

namespace titan::analyzer {

// They become warnings.
void warn_of_unread(Run& run);

}  // namespace titan::analyzer

// titan-run --check: what can be recorded on this machine.
#pragma once

#include "run/settings.h"

namespace titan::tools {

// The table, and whether nothing in it is a "no".
bool print_check(const Settings& settings);

}  // namespace titan::tools

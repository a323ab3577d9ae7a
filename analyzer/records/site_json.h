// Frames of stacks as JSON.
#pragma once

#include "host/json_value.h"
#include "named_stacks.h"

namespace titan::analyzer {

// The functions inlined at that address.
Json inlined_json(const StackSite& site);

}  // namespace titan::analyzer

// Frames of stacks as JSON.
#pragma once

#include "formats/json_value.h"
#include "named_stacks.h"

namespace titan::analyzer {

// What was inlined at that address.
format::Json inlined_json(const StackSite& site);

}  // namespace titan::analyzer

// One step that takes far longer than every other, as where a whole job stands still for a while.
#pragma once

#include <string>

#include "timing.h"

namespace titan::analyzer {

// "step 6 alone takes 30.1 s, no other more than 108 ms"; empty where there is none, or it is the first on record: that
// warms up.
std::string lone_step_text(const TimeAxis& axis);

}  // namespace titan::analyzer

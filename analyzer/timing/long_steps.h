// One or two steps that take far longer than every other, as where a whole job stands still for a while.
#pragma once

#include <string>

#include "timing.h"

namespace titan::analyzer {

// "step 6 alone takes 30.1 s, no other more than 108 ms", "steps 9 and 17 take 743 ms and 701 ms, no other more than
// 330 ms"; empty where there is none, or it is the first on record: that warms up.
std::string long_steps_text(const TimeAxis& axis);

}  // namespace titan::analyzer

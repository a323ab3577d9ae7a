// libcuda's functions, once it is loaded. cold.
#pragma once

#include "recording.h"

namespace titan::tracer {

// Fills in recording.driver; false before libcuda is loaded.
bool learn_driver(Recording& recording);

}  // namespace titan::tracer

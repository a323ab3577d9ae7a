#pragma once

#include "thread_state.h"

namespace titan::tracer {

// An event marker by the id of its name. hot.
void mark_event(Thread& thread, uint32_t name);

}  // namespace titan::tracer

#pragma once

#include "spans.h"
#include "thread_state.h"

namespace titan::tracer {

// An event marker by the id of its name; returns its own. hot.
uint32_t mark_event(Thread& thread, uint32_t name, const Told& told);

}  // namespace titan::tracer

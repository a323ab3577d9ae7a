// Anchors by which readers of a ring convert ticks.
#pragma once

#include "base/clock.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

inline format::ClockSource clock_source() {
    return clock_is_quick() ? format::ClockSource::kTsc : format::ClockSource::kMonotonic;
}

// One moment on all clocks. Called by one thread at a time per anchor.
void write_anchor(format::ClockAnchor& anchor);

}  // namespace titan::tracer

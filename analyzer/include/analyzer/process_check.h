// Is the process of a ring still there? A pid alone says nothing: it is reused, and it belongs to a namespace.
#pragma once

#include "formats/ring_clock.h"
#include "formats/ring_layout.h"

namespace titan::analyzer {

enum class ProcessPresence {
    kUnknown,  // another machine, or a namespace that we cannot look into
    kAlive,
    kGone,
};

ProcessPresence check_process(const format::RingHeader& header, const format::RingClock& clock);

}  // namespace titan::analyzer

// The process that a ring belongs to.
#pragma once

#include "formats/ring/ring_clock.h"
#include "formats/ring/ring_image.h"
#include "host/presence.h"

namespace titan::format {

inline int64_t heartbeat_age_ns(const RingHeader& header) {
    const RingClock clock(header);
    return clock.span_ns(header.heartbeat_ticks, clock.ticks_now());
}

inline Presence presence_of(const RingHeader& header) {
    return titan::presence_of({header.pid, header.pid_start_ticks, fixed_text(header.boot_id), header.pid_namespace},
                              heartbeat_age_ns(header));
}

}  // namespace titan::format

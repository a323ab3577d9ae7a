// Converts ticks of a ring to nanoseconds by its two anchors. Every number may be hostile: nothing here overflows,
// divides by zero or runs backwards.
#pragma once

#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::format {

class RingClock {
  public:
    RingClock() = default;
    explicit RingClock(const RingHeader& header);

    // Nanoseconds since 1970 of a tick; 0 for tick 0, which means "not yet" or "unknown" everywhere.
    int64_t realtime_ns(uint64_t ticks) const;
    // Signed distance from `from` to `to`.
    int64_t span_ns(uint64_t from_ticks, uint64_t to_ticks) const;
    // The tick of a moment on CLOCK_MONOTONIC, for a reader on the same boot.
    uint64_t ticks_at_monotonic(uint64_t monotonic_ns) const;
    // Likewise, of the moment in which it is called.
    uint64_t ticks_now() const;
    uint64_t ticks_at_realtime(uint64_t realtime_ns) const;
    double ns_per_tick() const { return ns_per_tick_; }

  private:
    double ns_per_tick_ = 1.0;
    uint64_t anchor_ticks_ = 0;
    uint64_t anchor_monotonic_ns_ = 0;
    uint64_t anchor_realtime_ns_ = 0;
};

}  // namespace titan::format

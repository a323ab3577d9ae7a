// Ticks of this process and the kernel's clocks: anchors, by which readers of a ring convert ticks, and times that a
// program asks for or tells.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

inline format::ClockSource clock_source() {
    return clock_is_quick() ? format::ClockSource::kTsc : format::ClockSource::kMonotonic;
}

// One moment on all clocks. Called by one thread at a time per anchor.
void write_anchor(format::ClockAnchor& anchor);

class TickTimes {
  public:
    explicit TickTimes(const format::RingHeader& header) {
        write_anchor(now_);
        const format::ClockAnchor& first = header.first_anchor;
        constexpr uint64_t kLeastNs = 100'000'000;  // closer anchors tell less than the estimate of the start
        const bool apart = now_.ticks > first.ticks && now_.monotonic_ns > first.monotonic_ns + kLeastNs;
        if (header.clock_source != format::ClockSource::kMonotonic) {
            ns_per_tick_ = apart ? static_cast<double>(now_.monotonic_ns - first.monotonic_ns) /
                                       static_cast<double>(now_.ticks - first.ticks)
                                 : 1e9 / static_cast<double>(std::max<uint64_t>(header.ticks_per_second, 1));
        }
    }

    // Nanoseconds since 1970; 0 of tick 0.
    int64_t realtime_ns(uint64_t ticks) const {
        if (ticks == 0) {
            return 0;
        }
        const auto ago = static_cast<double>(static_cast<int64_t>(now_.ticks - ticks));
        return static_cast<int64_t>(now_.realtime_ns) - static_cast<int64_t>(ago * ns_per_tick_);
    }

    // The tick of a moment on either clock. What no counter can have been at becomes its first tick, or now.
    uint64_t ticks_at_realtime(int64_t moment_ns) const { return ticks_ago(now_.realtime_ns, moment_ns); }
    uint64_t ticks_at_monotonic(int64_t moment_ns) const { return ticks_ago(now_.monotonic_ns, moment_ns); }

  private:
    uint64_t ticks_ago(uint64_t now_ns, int64_t moment_ns) const {
        // The difference first: nanoseconds since 1970 have more digits than a double.
        const auto ago_ns =
            static_cast<double>(static_cast<int64_t>(now_ns) - std::clamp(moment_ns, int64_t{0}, kLatestNs));
        const double ago = ago_ns / ns_per_tick_;
        const auto most = static_cast<double>(now_.ticks - 1);
        return now_.ticks - static_cast<uint64_t>(std::clamp(ago, 0.0, most));
    }

    format::ClockAnchor now_{};
    double ns_per_tick_ = 1.0;
};

}  // namespace titan::tracer

#include "formats/ring/ring_clock.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace titan::format {
namespace {

constexpr double kLimitNs = static_cast<double>(kLatestNs);
// Anchors closer than this say less about the rate than the estimate that the tracer made at its start.
constexpr uint64_t kMinAnchorDistanceNs = 100'000'000;
// Largest error of the estimate. If the anchors differ from it by more, the machine slept between them, and only the
// ticks went on.
constexpr double kMaxRateError = 0.05;
constexpr double kMinNsPerTick = 1e-3;
constexpr double kMaxNsPerTick = 1e3;

bool plausible(double ns_per_tick) {
    return std::isfinite(ns_per_tick) && ns_per_tick >= kMinNsPerTick && ns_per_tick <= kMaxNsPerTick;
}

double rate_of(const RingHeader& header) {
    if (header.clock_source == ClockSource::kMonotonic) {
        return 1.0;
    }
    const double estimate = header.ticks_per_second == 0 ? 0.0 : 1e9 / static_cast<double>(header.ticks_per_second);
    const ClockAnchor& first = header.first_anchor;
    const ClockAnchor& last = header.last_anchor;
    if (last.ticks > first.ticks && last.monotonic_ns > first.monotonic_ns &&
        last.monotonic_ns - first.monotonic_ns >= kMinAnchorDistanceNs) {
        const double measured =
            static_cast<double>(last.monotonic_ns - first.monotonic_ns) / static_cast<double>(last.ticks - first.ticks);
        const bool agrees = !plausible(estimate) ||
                            (measured > estimate * (1 - kMaxRateError) && measured < estimate * (1 + kMaxRateError));
        if (plausible(measured) && agrees) {
            return measured;
        }
    }
    return plausible(estimate) ? estimate : 1.0;
}

double signed_distance(uint64_t from, uint64_t to) {
    return to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
}

int64_t to_ns(double value) { return static_cast<int64_t>(std::clamp(value, -kLimitNs, kLimitNs)); }

uint64_t to_ticks(double value) { return static_cast<uint64_t>(std::clamp(value, 0.0, kLimitNs)); }

}  // namespace

RingClock::RingClock(const RingHeader& header) : ns_per_tick_(rate_of(header)) {
    // An anchor under construction has an odd sequence; the first one is never written again.
    const bool use_last = header.last_anchor.sequence % 2 == 0 && header.last_anchor.ticks != 0;
    const ClockAnchor& anchor = use_last ? header.last_anchor : header.first_anchor;
    anchor_ticks_ = anchor.ticks;
    anchor_monotonic_ns_ = anchor.monotonic_ns;
    anchor_realtime_ns_ = anchor.realtime_ns;
}

int64_t RingClock::realtime_ns(uint64_t ticks) const {
    if (ticks == 0) {
        return 0;
    }
    // The distance is small and exact in a double; the sum with the epoch is not, so it is made in integers.
    const int64_t distance_ns = to_ns(signed_distance(anchor_ticks_, ticks) * ns_per_tick_);
    const int64_t base_ns = static_cast<int64_t>(std::min<uint64_t>(anchor_realtime_ns_, INT64_MAX));
    int64_t sum_ns = 0;
    const bool overflows = __builtin_add_overflow(base_ns, distance_ns, &sum_ns);
    return overflows ? kLatestNs : std::clamp<int64_t>(sum_ns, 1, kLatestNs);
}

int64_t RingClock::span_ns(uint64_t from_ticks, uint64_t to_ticks) const {
    return to_ns(signed_distance(from_ticks, to_ticks) * ns_per_tick_);
}

uint64_t RingClock::ticks_now() const { return ticks_at_monotonic(monotonic_now_ns()); }

uint64_t RingClock::ticks_at_monotonic(uint64_t monotonic_ns) const {
    return to_ticks(static_cast<double>(anchor_ticks_) +
                    signed_distance(anchor_monotonic_ns_, monotonic_ns) / ns_per_tick_);
}

uint64_t RingClock::ticks_at_realtime(uint64_t realtime_ns) const {
    return to_ticks(static_cast<double>(anchor_ticks_) +
                    signed_distance(anchor_realtime_ns_, realtime_ns) / ns_per_tick_);
}

}  // namespace titan::format

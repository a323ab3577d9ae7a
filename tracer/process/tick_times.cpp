#include "tick_times.h"

#include <atomic>

#include "base/atomic_field.h"

namespace titan::tracer {

void write_anchor(format::ClockAnchor& anchor) {
    const std::atomic_ref<uint64_t> sequence(anchor.sequence);
    const uint64_t before = sequence.load(std::memory_order_relaxed);
    sequence.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // pairs with the reader's second look at the sequence
    const ClockPair now = read_clock_pair();
    store_field(anchor.ticks, now.ticks);
    store_field(anchor.monotonic_ns, now.monotonic_ns);
    store_field(anchor.realtime_ns, realtime_now_ns() - (monotonic_now_ns() - now.monotonic_ns));
    sequence.store(before + 2, std::memory_order_release);
}

}  // namespace titan::tracer

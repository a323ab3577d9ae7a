#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "hot/ring.h"

namespace titan::tracer {

namespace detail {
constinit bool clock_is_tsc = false;
}

namespace {

__extension__ using Wide = unsigned __int128;

constinit uint64_t rate_per_second = 1'000'000'000;

bool file_contains(const char* path, const char* word) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    // The flags line of the first processor lies in the first few kilobytes.
    char text[8192];
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return strstr(text, word) != nullptr;
}

bool tsc_is_trustworthy() {
#if defined(__x86_64__)
    const char* const cpuinfo = "/proc/cpuinfo";
    const char* const clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    return file_contains(cpuinfo, "constant_tsc") && file_contains(cpuinfo, "nonstop_tsc") &&
           (file_contains(clocksource, "tsc") || file_contains(clocksource, "kvm-clock"));
#else
    return false;
#endif
}

struct Pair {
    uint64_t ticks, ns;
};

// The tightest of a few readings: a reading interrupted by the scheduler would spoil the rate.
Pair read_pair() {
    Pair best{};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 5; ++i) {
        const uint64_t before = now_ticks();
        const uint64_t ns = monotonic_now_ns();
        const uint64_t after = now_ticks();
        if (after - before < best_width) {
            best_width = after - before;
            best = {before + (after - before) / 2, ns};
        }
    }
    return best;
}

}  // namespace

void start_clock() {
    detail::clock_is_tsc = tsc_is_trustworthy();
    if (!detail::clock_is_tsc) {
        return;
    }
    const Pair first = read_pair();
    const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
    nanosleep(&pause, nullptr);
    const Pair second = read_pair();
    if (second.ns <= first.ns || second.ticks <= first.ticks) {
        detail::clock_is_tsc = false;
        return;
    }
    rate_per_second =
        static_cast<uint64_t>(static_cast<Wide>(second.ticks - first.ticks) * 1'000'000'000 / (second.ns - first.ns));
}

format::ClockSource clock_source() {
    return detail::clock_is_tsc ? format::ClockSource::kTsc : format::ClockSource::kMonotonic;
}

uint64_t ticks_per_second() { return rate_per_second; }

uint64_t ticks_to_ns(uint64_t delta_ticks) {
    return static_cast<uint64_t>(static_cast<Wide>(delta_ticks) * 1'000'000'000 / rate_per_second);
}

uint64_t ns_to_ticks(uint64_t delta_ns) {
    return static_cast<uint64_t>(static_cast<Wide>(delta_ns) * rate_per_second / 1'000'000'000);
}

void write_anchor(format::ClockAnchor& anchor) {
    const std::atomic_ref<uint64_t> sequence(anchor.sequence);
    const uint64_t before = sequence.load(std::memory_order_relaxed);
    sequence.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // pairs with the reader's second look at the sequence
    const Pair now = read_pair();
    store_field(anchor.ticks, now.ticks);
    store_field(anchor.monotonic_ns, now.ns);
    store_field(anchor.realtime_ns, realtime_now_ns() - (monotonic_now_ns() - now.ns));
    sequence.store(before + 2, std::memory_order_release);
}

}  // namespace titan::tracer

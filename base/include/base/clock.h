// Clocks; and the recorder's: the TSC where the kernel itself trusts it, else CLOCK_MONOTONIC. hot, signal-safe,
// any-thread.
#pragma once

#include <time.h>

#include <cstdint>

namespace titan {

// A moment in the year 2116. Readers reject later times and times before 1970, so that the difference of two never
// overflows.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;

namespace detail {
[[gnu::visibility("hidden")]] extern constinit bool clock_is_tsc;
#if defined(__x86_64__)
// The builtin, because the header that names it costs each file that includes it a second to compile.
inline uint64_t tsc() { return __builtin_ia32_rdtsc(); }
#endif
}  // namespace detail

inline uint64_t clock_ns(clockid_t id) {
    timespec now;
    clock_gettime(id, &now);  // vDSO: no system call
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline timespec timespec_of(uint64_t duration_ns) {
    return {.tv_sec = static_cast<time_t>(duration_ns / 1'000'000'000),
            .tv_nsec = static_cast<long>(duration_ns % 1'000'000'000)};
}

inline uint64_t monotonic_now_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline uint64_t realtime_now_ns() { return clock_ns(CLOCK_REALTIME); }

inline uint64_t now_ticks() {
#if defined(__x86_64__)
    if (detail::clock_is_tsc) [[likely]] {
        return detail::tsc();
    }
#endif
    return monotonic_now_ns();
}

// now_ticks() in two steps, for code that must not contain a call: ask first.
#if defined(__x86_64__)
inline bool clock_is_quick() { return detail::clock_is_tsc; }
inline uint64_t quick_now_ticks() { return detail::tsc(); }
#else
inline bool clock_is_quick() { return false; }
inline uint64_t quick_now_ticks() { return 0; }
#endif

// Chooses the source and measures its rate, about 2 ms. Once per process, before anything is recorded.
void start_clock();

// The program forbids its threads the counter, and answers the fault with numbers of its own (a simulator, a replayer):
// times of its threads and of ours would have nothing in common.
bool counter_is_forbidden();

uint64_t ticks_per_second();
uint64_t ticks_to_ns(uint64_t delta_ticks);
uint64_t ns_to_ticks(uint64_t delta_ns);

// One moment on both clocks.
struct ClockPair {
    uint64_t ticks, monotonic_ns;
};
ClockPair read_clock_pair();

}  // namespace titan

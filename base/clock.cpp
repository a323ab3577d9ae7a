#include "base/clock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace titan {

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
    const ssize_t length = read(fd, text, sizeof(text) - 1);
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

}  // namespace

bool counter_is_forbidden() {
#if defined(__x86_64__)
    int allowed = PR_TSC_ENABLE;
    return prctl(PR_GET_TSC, &allowed, 0, 0, 0) == 0 && allowed == PR_TSC_SIGSEGV;
#else
    return false;
#endif
}

// The tightest of a few readings: a reading interrupted by the scheduler would spoil the rate.
ClockPair read_clock_pair() {
    ClockPair best{};
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

void start_clock() {
    detail::clock_is_tsc = tsc_is_trustworthy();
    if (!detail::clock_is_tsc) {
        return;
    }
    const ClockPair first = read_clock_pair();
    const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
    nanosleep(&pause, nullptr);
    const ClockPair second = read_clock_pair();
    if (second.monotonic_ns <= first.monotonic_ns || second.ticks <= first.ticks) {
        detail::clock_is_tsc = false;
        return;
    }
    rate_per_second = static_cast<uint64_t>(static_cast<Wide>(second.ticks - first.ticks) * 1'000'000'000 /
                                            (second.monotonic_ns - first.monotonic_ns));
}

uint64_t ticks_per_second() { return rate_per_second; }

uint64_t ticks_to_ns(uint64_t delta_ticks) {
    return static_cast<uint64_t>(static_cast<Wide>(delta_ticks) * 1'000'000'000 / rate_per_second);
}

uint64_t ns_to_ticks(uint64_t delta_ns) {
    return static_cast<uint64_t>(static_cast<Wide>(delta_ns) * rate_per_second / 1'000'000'000);
}

}  // namespace titan

// Waiting for a word to change, and waking those who wait. signal-safe, any-thread; errno is kept.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace titan {

// Has a counter that goes round come to `wanted`?
inline bool reached(uint32_t now, uint32_t wanted) { return static_cast<int32_t>(now - wanted) >= 0; }

// kShared: a word that other processes wait for, too.
enum class FutexScope : int { kProcess = FUTEX_PRIVATE_FLAG, kShared = 0 };

// While the word holds `value`, for `limit_ns` at most; may return early.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value, uint64_t limit_ns,
                       FutexScope scope = FutexScope::kProcess) {
    const int saved_errno = errno;
    const timespec limit = timespec_of(limit_ns);
    syscall(SYS_futex, &word, FUTEX_WAIT | static_cast<int>(scope), value, &limit, nullptr, 0);
    errno = saved_errno;
}

// Waits until done(value of the word) is true; false if the deadline (CLOCK_MONOTONIC) came first. The thread that
// makes it true must change the word or wake.
template <typename Done>
bool futex_await(std::atomic<uint32_t>& word, uint64_t deadline_ns, Done done) {
    for (;;) {
        const uint32_t value = word.load(std::memory_order_acquire);
        if (done(value)) {
            return true;
        }
        const uint64_t now_ns = monotonic_now_ns();
        if (now_ns >= deadline_ns) {
            return false;
        }
        futex_wait(word, value, deadline_ns - now_ns);
    }
}

inline void futex_wake_all(std::atomic<uint32_t>& word, FutexScope scope = FutexScope::kProcess) {
    const int saved_errno = errno;
    syscall(SYS_futex, &word, FUTEX_WAKE | static_cast<int>(scope), INT32_MAX, nullptr, nullptr, 0);
    errno = saved_errno;
}

}  // namespace titan

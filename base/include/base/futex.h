// Waiting for a word of this process to change, and waking those who wait. signal-safe, any-thread; errno is kept.
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

// While the word holds `value`, for `limit_ns` at most; may return early.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value, uint64_t limit_ns) {
    const int saved_errno = errno;
    const timespec limit = timespec_of(limit_ns);
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &limit, nullptr, 0);
    errno = saved_errno;
}

inline void futex_wake_all(std::atomic<uint32_t>& word) {
    const int saved_errno = errno;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
    errno = saved_errno;
}

}  // namespace titan

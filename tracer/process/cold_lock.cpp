#include "cold_lock.h"

#include "base/clock.h"
#include "base/futex.h"
#include "fork_page.h"
#include "tracer/record.h"

namespace titan::tracer {

constinit std::atomic<ForkPage*> fork_page{nullptr};

namespace {

constexpr uint64_t kLongestWaitNs = 1'000'000'000;

enum State : uint32_t { kFree, kHeld, kAwaited };  // kAwaited: held, and somebody may be waiting

bool wait_for(std::atomic<uint32_t>& word) {
    const uint64_t deadline_ns = monotonic_now_ns() + kLongestWaitNs;
    while (word.exchange(kAwaited, std::memory_order_acquire) != kFree) {
        const uint64_t now_ns = monotonic_now_ns();
        if (now_ns >= deadline_ns) {
            return false;
        }
        futex_wait(word, kAwaited, deadline_ns - now_ns);
    }
    return true;
}

const void* this_thread_id() { return &this_nesting; }

bool take(ForkPage& page, ColdLock::Wait wait) {
    uint32_t state = kFree;
    if (!page.cold_lock.compare_exchange_strong(state, kHeld, std::memory_order_acquire) &&
        (wait == ColdLock::Wait::kNone || page.cold_lock_holder.load(std::memory_order_relaxed) == this_thread_id() ||
         !wait_for(page.cold_lock))) {
        return false;
    }
    page.cold_lock_holder.store(this_thread_id(), std::memory_order_relaxed);
    return true;
}

}  // namespace

ColdLock::ColdLock(Wait wait) : held_(take(*fork_page.load(std::memory_order_acquire), wait)) {}

ColdLock::~ColdLock() {
    if (!held_) {
        return;
    }
    ForkPage& page = *fork_page.load(std::memory_order_acquire);
    page.cold_lock_holder.store(nullptr, std::memory_order_relaxed);
    if (page.cold_lock.exchange(kFree, std::memory_order_release) == kAwaited) {
        futex_wake_all(page.cold_lock);
    }
}

}  // namespace titan::tracer

#include "cold_lock.h"

#include <sched.h>

#include "fork_page.h"

namespace titan::tracer {

ColdLock::ColdLock() {
    ForkPage* const page = fork_page.load(std::memory_order_acquire);
    while (page->cold_lock.exchange(1, std::memory_order_acquire) != 0) {
        sched_yield();
    }
}

ColdLock::~ColdLock() { fork_page.load(std::memory_order_acquire)->cold_lock.store(0, std::memory_order_release); }

}  // namespace titan::tracer

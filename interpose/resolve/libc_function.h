#pragma once

#include <atomic>

#include "base/loaded_objects.h"

namespace titan::interpose {

// libc's function of that name, or another tool's in front of it, remembered in `known`; null where there is none.
// signal-safe, and before our constructor, too: it takes no lock.
inline void* libc_function(std::atomic<void*>& known, const char* name) {
    void* real = known.load(std::memory_order_relaxed);
    if (real == nullptr) [[unlikely]] {
        real = function_behind_us(name);
        known.store(real, std::memory_order_relaxed);
    }
    return real;
}

}  // namespace titan::interpose

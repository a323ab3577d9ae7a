// From a call of our wrapper to the function that the caller would have reached without us.
//
// The answer depends on the caller: one process may hold several NCCL copies, each with its own users. It is what the dynamic
// linker would have found. An object's first call finds all functions of the table, and remembers them by the object's code
// range: a library may launch from thousands of places, and a call that is to save the job (ncclCommAbort) must not wait for the
// loader, which a thread may hold up for ever. Ranges are only ever added, so a reader needs no lock. hot after an object's first
// call; any-thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "api.h"

namespace titan::interpose {

struct CallerCache {
    std::atomic<uintptr_t> begin;  // 0 free; written first
    std::atomic<uintptr_t> bytes;  // written last; 0 holds nobody
    void* real;
};

inline constexpr uint32_t kCachedCallersPerApi = 16;

[[gnu::visibility("hidden")]] extern CallerCache callers[kApiIds][kCachedCallersPerApi];

// Looks up and remembers; null when no loaded library has the function (not remembered: one may be loaded later). cold.
void* find_real_slow(Api api, const void* return_address);

inline bool is_within(const CallerCache& range, const void* return_address) {
    const uintptr_t bytes = range.bytes.load(std::memory_order_acquire);
    return reinterpret_cast<uintptr_t>(return_address) - range.begin.load(std::memory_order_relaxed) < bytes;
}

inline void* find_real(Api api, const void* return_address) {
    const CallerCache& first = callers[number_of(api)][0];
    if (is_within(first, return_address)) [[likely]] {
        void* const real = first.real;
        if (real == nullptr) {
            __builtin_unreachable();
        }
        return real;
    }
    return find_real_slow(api, return_address);
}

}  // namespace titan::interpose

// From a call of our wrapper to the function that the caller would have reached without us.
//
// The answer depends on the caller: one process may hold several NCCL copies, each with its own users. It is looked up as
// the dynamic linker would have done it, once per calling object, and remembered by the object's code range: a library may
// launch from thousands of places. Ranges are only ever added, so a reader needs no lock. hot after an object's first call;
// any-thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "api.h"

namespace titan::interpose {

struct Callers {
    std::atomic<uintptr_t> begin;  // 0 free; written first
    std::atomic<uintptr_t> bytes;  // written last; 0 holds nobody
    void* real;
};

inline constexpr uint32_t kCallersPerApi = 16;

[[gnu::visibility("hidden")]] extern Callers callers[kApiIds][kCallersPerApi];

// Looks up and remembers; null when no loaded library has the function (not remembered: one may be loaded later). cold.
void* find_real_slow(Api api, const void* return_address);

inline bool is_within(const Callers& range, const void* return_address) {
    const uintptr_t bytes = range.bytes.load(std::memory_order_acquire);
    return reinterpret_cast<uintptr_t>(return_address) - range.begin.load(std::memory_order_relaxed) < bytes;
}

inline void* find_real(Api api, const void* return_address) {
    const Callers& first = callers[number_of(api)][0];
    if (is_within(first, return_address)) [[likely]] {
        void* const real = first.real;
        if (real == nullptr) {
            __builtin_unreachable();
        }
        return real;
    }
    return find_real_slow(api, return_address);
}

// The function called `name` in the very object that holds `address`; null when it is not there. cold.
void* find_beside(const void* address, const char* name);

}  // namespace titan::interpose

// Finds, for a call of our wrapper, the function that the caller would have reached without us.
//
// The answer depends on the caller: one process may hold several NCCL copies, each with its own users. It is what the
// dynamic linker would have found. An object's first call finds all functions of the table, and remembers them by the
// object's code range: a library may launch from thousands of places, and a call that is to save the job
// (ncclCommAbort) must not wait for the loader, whose lock another thread may hold for ever. Ranges are only ever
// added, so a reader needs no lock. The last caller is tried first: in PyTorch several libraries make the first calls,
// and then one launches all kernels. hot after an object's first call; any-thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "api.h"

namespace titan::interpose {

// Code that calls, and the function that it means. Never changes once last_callers or a reader has seen its `bytes`.
struct Caller {
    uintptr_t begin;
    uintptr_t bytes;  // 0 holds nobody
    void* real;
};

// Last caller of each API; null before the first call.
[[gnu::visibility("hidden")]] extern std::array<std::atomic<const Caller*>, kApiIds> last_callers;

// Looks up and remembers; null when no loaded library has the function (not remembered: one may be loaded later).
void* find_real_slow(Api api, const void* return_address);

inline bool is_within(const Caller& caller, const void* return_address) {
    return reinterpret_cast<uintptr_t>(return_address) - caller.begin < caller.bytes;
}

inline void* find_real(Api api, const void* return_address) {
    const Caller& last = *last_callers[number_of(api)].load(std::memory_order_acquire);
    if (is_within(last, return_address)) [[likely]] {
        void* const real = last.real;
        if (real == nullptr) {
            __builtin_unreachable();
        }
        return real;
    }
    return find_real_slow(api, return_address);
}

}  // namespace titan::interpose

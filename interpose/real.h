// From a call of our wrapper to the function that the caller would have reached without us.
//
// The answer depends on the caller: one process may hold several NCCL copies, each with its own users. It is looked up as
// the dynamic linker would have done it, once per call site, and remembered. Call sites are only ever added, so a reader
// needs no lock. hot after a site's first call; any-thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "api.h"

namespace titan::interpose {

struct CallSite {
    std::atomic<const void*> return_address;  // null free; written after `real`
    std::atomic<void*> real;
};

inline constexpr uint32_t kSitesPerApi = 64;
inline constexpr uint32_t kSiteProbes = 8;

[[gnu::visibility("hidden")]] extern CallSite call_sites[kApiIds][kSitesPerApi];

inline uint32_t first_site(const void* return_address) {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(return_address) * 0x9E3779B97F4A7C15) >> 58);
}
static_assert(kSitesPerApi == 1u << 6, "first_site takes the top 6 bits");

// Looks up and remembers; null when no loaded library has the function (not remembered: one may be loaded later). cold.
void* find_real_slow(Api api, const void* return_address);

inline void* find_real(Api api, const void* return_address) {
    const CallSite* const sites = call_sites[static_cast<size_t>(api)];
    for (uint32_t probe = 0, at = first_site(return_address); probe < kSiteProbes;
         ++probe, at = (at + 1) % kSitesPerApi) {
        if (sites[at].return_address.load(std::memory_order_acquire) == return_address) [[likely]] {
            return sites[at].real.load(std::memory_order_relaxed);
        }
    }
    return find_real_slow(api, return_address);
}

// The function called `name` in the very object that holds `address`; null when it is not there. cold.
void* find_beside(const void* address, const char* name);

}  // namespace titan::interpose

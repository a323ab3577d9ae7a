// The doors through which a call reaches a wrapper. Door 0 is the PLT: who called tells which real function was meant
// (real.h). Through the others come callers that asked for a pointer (dlsym, cuGetProcAddress, cudaGetDriverEntryPoint):
// each has one real function per API, stored when the pointer was handed out, so that two copies of a library never mix.
//
// any-thread, lock-free; also before the constructor and in forked children.
#pragma once

#include <atomic>

#include "api.h"

namespace titan::interpose {

inline constexpr unsigned kDoors = 4;

[[gnu::visibility("hidden")]] extern std::atomic<void*> handed_out[kDoors][kApiIds];

// The real function of a call that came through this door. hot.
template <unsigned Door>
void* real_behind(Api api) {
    static_assert(Door > 0 && Door < kDoors);
    return handed_out[Door][number_of(api)].load(std::memory_order_relaxed);
}

// Wrappers of one row, by door; [0] is never handed out and stays null.
using DoorSet = void* const[kDoors];
extern const DoorSet* const nccl_doors;     // by id - 1
extern const DoorSet* const runtime_doors;  // by id - kRuntimeBegin - 1
extern const DoorSet* const driver_doors;   // by id - kDriverBegin - 1

// What the caller gets instead of `real`: a wrapper with a door of its own for it, or `real` itself when all doors are taken
// or it is a function of this library already. One real function always gets the same answer. cold.
void* hand_out(Api api, void* real);

}  // namespace titan::interpose

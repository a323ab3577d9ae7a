// The thunks through which a call reaches a wrapper. Thunk 0 is the PLT: the caller tells which real function was meant
// (real.h). The others are for callers that asked for a pointer (dlsym, cuGetProcAddress, cudaGetDriverEntryPoint):
// each has one real function per API, stored when the pointer was handed out, so that two copies of a library never
// mix.
//
// any-thread, lock-free; also before the constructor and in forked children.
#pragma once

#include <atomic>

#include "api.h"

namespace titan::interpose {

inline constexpr unsigned kThunks = 4;

[[gnu::visibility("hidden")]] extern std::atomic<void*> thunk_targets[kThunks][kApiIds];

// The real function of a call that came through this thunk. hot.
template <unsigned Thunk>
void* real_behind(Api api) {
    static_assert(Thunk > 0 && Thunk < kThunks);
    return thunk_targets[Thunk][number_of(api)].load(std::memory_order_relaxed);
}

// Wrappers of one row, by thunk; [0] is never handed out and stays null.
using ThunkSet = void* const[kThunks];
extern const ThunkSet* const nccl_thunks;     // index: id - 1
extern const ThunkSet* const runtime_thunks;  // index: id - kRuntimeBegin - 1
extern const ThunkSet* const driver_thunks;   // index: id - kDriverBegin - 1

// The pointer that the caller gets instead of `real`: a wrapper with a thunk of its own for it, or `real` itself if all
// thunks are taken or it already is a function of this library. The same real function always gives the same answer.
// cold.
void* bind_thunk(Api api, void* real);

}  // namespace titan::interpose

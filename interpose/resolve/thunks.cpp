#include "thunks.h"

#include "base/loaded_objects.h"

namespace titan::interpose {

constinit std::atomic<void*> thunk_targets[kThunks][kApiIds]{};

namespace {

const ThunkSet& thunks_of(Api api) {
    const size_t id = number_of(api);
    if (api < Api::kNcclEnd) {
        return nccl_thunks[id - 1];
    }
    return api < Api::kRuntimeEnd ? runtime_thunks[id - number_of(Api::kRuntimeBegin) - 1]
                                  : driver_thunks[id - number_of(Api::kDriverBegin) - 1];
}

// Its library was closed: nobody may call the old pointer any more, so the thunk is free.
bool is_gone(const void* real) { return object_of(real).bytes == 0; }

// Is the thunk this function's, or can it be?
bool take(std::atomic<void*>& thunk, void* real) {
    void* held = nullptr;
    if (thunk.compare_exchange_strong(held, real, std::memory_order_relaxed) || held == real) {
        return true;
    }
    return false;
}

}  // namespace

void* bind_thunk(Api api, void* real) {
    if (real == nullptr || is_ours(real)) {
        return real;
    }
    const ThunkSet& thunks = thunks_of(api);
    for (unsigned thunk = 1; thunk < kThunks; ++thunk) {
        if (take(thunk_targets[thunk][number_of(api)], real)) {
            return thunks[thunk];
        }
    }
    for (unsigned thunk = 1; thunk < kThunks; ++thunk) {
        std::atomic<void*>& slot = thunk_targets[thunk][number_of(api)];
        void* held = slot.load(std::memory_order_relaxed);
        if (is_gone(held) && slot.compare_exchange_strong(held, real, std::memory_order_relaxed)) {
            return thunks[thunk];
        }
    }
    return real;
}

}  // namespace titan::interpose

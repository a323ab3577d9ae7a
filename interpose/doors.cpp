#include "doors.h"

#include "base/loaded_objects.h"

namespace titan::interpose {

constinit std::atomic<void*> handed_out[kDoors][kApiIds]{};

namespace {

const DoorSet& doors_of(Api api) {
    const size_t id = number_of(api);
    if (api < Api::kNcclEnd) {
        return nccl_doors[id - 1];
    }
    return api < Api::kRuntimeEnd ? runtime_doors[id - number_of(Api::kRuntimeBegin) - 1]
                                  : driver_doors[id - number_of(Api::kDriverBegin) - 1];
}

// Its library was closed: whoever still has the pointer must not call it, so the door is free.
bool is_gone(const void* real) { return object_of(real).bytes == 0; }

// Is the door this function's, or can it be?
bool take(std::atomic<void*>& door, void* real) {
    void* held = nullptr;
    if (door.compare_exchange_strong(held, real, std::memory_order_relaxed) || held == real) {
        return true;
    }
    return false;
}

}  // namespace

void* hand_out(Api api, void* real) {
    if (real == nullptr || is_ours(real)) {
        return real;
    }
    const DoorSet& doors = doors_of(api);
    for (unsigned door = 1; door < kDoors; ++door) {
        if (take(handed_out[door][number_of(api)], real)) {
            return doors[door];
        }
    }
    for (unsigned door = 1; door < kDoors; ++door) {
        std::atomic<void*>& slot = handed_out[door][number_of(api)];
        void* held = slot.load(std::memory_order_relaxed);
        if (is_gone(held) && slot.compare_exchange_strong(held, real, std::memory_order_relaxed)) {
            return doors[door];
        }
    }
    return real;
}

}  // namespace titan::interpose

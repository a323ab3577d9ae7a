#include "nccl_callers.h"

#include <atomic>
#include <cstdint>

#include "base/loaded_objects.h"

namespace titan::interpose {

namespace {

// The last objects that were asked about; the lowest bit says NCCL. When one is closed and another takes its address,
// the answer for that one is wrong, and harmless: it gets a wrapper for a real function or the reverse.
constexpr size_t kRemembered = 16;
constinit std::atomic<uintptr_t> remembered[kRemembered]{};
constinit std::atomic<uint32_t> next{0};

}  // namespace

bool is_nccl(const void* address) {
    const LoadedObject object = object_of(address);
    if (!object) {
        return false;
    }
    const auto key = reinterpret_cast<uintptr_t>(object.dynamic);
    for (const std::atomic<uintptr_t>& slot : remembered) {
        const uintptr_t known = slot.load(std::memory_order_relaxed);
        if ((known & ~uintptr_t{1}) == key) {
            return (known & 1) != 0;
        }
    }
    const bool answer = function_in(object, "ncclGetVersion") != nullptr;
    remembered[next.fetch_add(1, std::memory_order_relaxed) % kRemembered].store(key | (answer ? 1 : 0),
                                                                                 std::memory_order_relaxed);
    return answer;
}

}  // namespace titan::interpose

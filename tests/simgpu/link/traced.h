// An API call as a subscriber of CUPTI sees it: entered, left, with its parameters.
#pragma once

#include <cstddef>
#include <cstring>

#include "simgpu_hook.h"

namespace simgpu {

// The parameters as a structure with these members would hold them.
struct Packed {
    alignas(16) char bytes[256] = {};
    size_t size = 0;

    template <typename... Args>
    Packed& operator()(const Args&... args) {
        (put(args), ...);
        return *this;
    }

  private:
    template <typename T>
    void put(const T& value) {
        size = (size + alignof(T) - 1) / alignof(T) * alignof(T);
        if (size + sizeof(value) <= sizeof(bytes)) {
            std::memcpy(bytes + size, &value, sizeof(value));
        }
        size += sizeof(value);
    }
};

// `state`: libcuda's, or null without a driver. `params` and `symbol` are asked only when somebody listens.
template <typename Params, typename Symbol, typename Call>
auto traced(SimgpuHookState* state, int domain, uint32_t cbid, const char* name, Params params, Symbol symbol,
            Call call) {
    const SimgpuApiHook listener = state ? __atomic_load_n(&state->hook, __ATOMIC_ACQUIRE) : nullptr;
    if (!listener) {
        return call();
    }
    const Packed packed = params();
    SimgpuApiCall record{domain,  cbid,     name, packed.bytes,
                         nullptr, symbol(), 0,    __atomic_add_fetch(&state->last_correlation_id, 1, __ATOMIC_RELAXED)};
    listener(kSimgpuEnter, &record);
    const auto result = call();
    record.result = &result;
    listener(kSimgpuExit, &record);
    return result;
}

}  // namespace simgpu

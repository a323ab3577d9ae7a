// CUPTI's ids of the runtime's calls; 0 where the toolkit has no CUPTI.
#pragma once

#include <cstdint>

#include "driver_table.h"
#include "traced.h"

#if __has_include(<cupti_runtime_cbid.h>)
#include <cupti_runtime_cbid.h>
#define SIMGPU_RUNTIME_CBID(name, version) CUPTI_RUNTIME_TRACE_CBID_##name##_v##version
#else
#define SIMGPU_RUNTIME_CBID(name, version) 0
#endif

namespace simgpu {

#define RUNTIME_CBID(name, version) constexpr uint32_t kCbidOf_##name = SIMGPU_RUNTIME_CBID(name, version);
#include "cbids.def"
#undef RUNTIME_CBID

inline SimgpuHookState* api_hook() { return driver_table() ? driver_table()->api_hook : nullptr; }

// A call with a row in cbids.def; `symbol` is a function that names the kernel of a launch.
#define TRACED(name, arguments, symbol, ...)                  \
    return traced(                                            \
        api_hook(), kSimgpuRuntimeApi, kCbidOf_##name, #name, \
        [&] {                                                 \
            return Packed {}                                  \
            arguments;                                        \
        },                                                    \
        symbol, __VA_ARGS__);

}  // namespace simgpu

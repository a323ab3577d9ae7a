// Driver API: the entry points, plain and for per-thread default streams.
#include "impl.h"
#include "traced.h"

#if __has_include(<cupti_driver_cbid.h>)
#include <cupti_driver_cbid.h>
#define SIMGPU_CBID(name) CUPTI_DRIVER_TRACE_CBID_##name
#else
#define SIMGPU_CBID(name) 0
#endif

extern "C" __attribute__((visibility("default"))) SimgpuHookState simgpu_api_hook;
SimgpuHookState simgpu_api_hook = {};

namespace simgpu {

namespace {

const char* kernel_name(CUfunction function) {
    std::lock_guard lock(driver().lock);
    return driver().functions.count(function) ? function->name.c_str() : nullptr;
}

// The name of the kernel that is launched, if one is among the arguments.
struct KernelName {
    const char* name = nullptr;

    template <typename... Args>
    const char* operator()(const Args&... args) {
        (look(args), ...);
        return name;
    }

  private:
    template <typename T>
    void look(const T& value) {
        if constexpr (std::is_same_v<T, CUfunction>) {
            name = kernel_name(value);
        }
    }
};

}  // namespace
}  // namespace simgpu

#define ENTRY(symbol, arguments, ...)                                     \
    return simgpu::traced(                                                \
        &simgpu_api_hook, kSimgpuDriverApi, SIMGPU_CBID(symbol), #symbol, \
        [&] {                                                             \
            return simgpu::Packed {}                                      \
            arguments;                                                    \
        },                                                                \
        [&] {                                                             \
            return simgpu::KernelName {}                                  \
            arguments;                                                    \
        },                                                                \
        __VA_ARGS__);

#define API(name, parameters, arguments)                                     \
    CUresult name parameters {                                               \
        ENTRY(name, arguments, [&] { return simgpu::impl::name arguments; }) \
    }
#include "api.def"
#undef API

// The declaration comes from the plain form's, so that the row cannot differ from NVIDIA's header.
#define PER_THREAD(name, suffix, parameters, arguments)                               \
    extern "C" __attribute__((visibility("default"))) decltype(name) name##_##suffix; \
    CUresult name##_##suffix parameters {                                             \
        ENTRY(name##_##suffix, arguments, [&] {                                       \
            const simgpu::PerThreadStreams scope;                                     \
            return simgpu::impl::name arguments;                                      \
        })                                                                            \
    }
#include "per_thread.def"
#undef PER_THREAD

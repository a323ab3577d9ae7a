#include "plugin_env.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

#include "base/loaded_objects.h"
#include "base/text.h"
#include "tracer/warn.h"

namespace titan::interpose {

namespace {

constexpr const char* kProfilerVariable = "NCCL_PROFILER_PLUGIN";
constexpr const char* kStaticPlugin = "STATIC_PLUGIN";  // "look among what the process has loaded"
constexpr const char* kNvtxVariable = "NVTX_INJECTION64_PATH";

bool is_switched_off(const char* variable) {
    const char* const value = getenv(variable);
    return value != nullptr && is_off(value);
}

const char* own_path() {
    Dl_info library;
    return dladdr(reinterpret_cast<void*>(&own_path), &library) != 0 ? library.dli_fname : nullptr;
}

// NCCL compares as many characters as the user wrote: "static" means the same.
bool names_us(const char* plugin) {
    const char* const path = own_path();
    return plugin[0] != '\0' &&
           (strncasecmp(kStaticPlugin, plugin, strlen(plugin)) == 0 || (path != nullptr && strcmp(plugin, path) == 0));
}

}  // namespace

void offer_plugins() {
    // If we were not preloaded, the process may have threads already, and its environment is not ours to change.
    const bool preloaded = getauxval(AT_SECURE) == 0 && getenv("LD_PRELOAD") != nullptr && is_in_front_of_libc();
    if (!preloaded || is_switched_off("TITANTRACE")) {
        return;
    }
    if (!is_switched_off("TITANTRACE_NCCL_PLUGIN")) {
        setenv(kProfilerVariable, kStaticPlugin, 0);
    }
#ifdef TITAN_HAVE_NVTX
    if (const char* const path = own_path(); path != nullptr && path[0] == '/' && !is_switched_off("TITANTRACE_NVTX")) {
        setenv(kNvtxVariable, path, 0);
    }
#endif
}

bool is_nvtx_meant() {
    const char* const plugin = getenv(kProfilerVariable);
    const char* const path = own_path();
    return is_in_front_of_libc() || (plugin != nullptr && path != nullptr && strcmp(plugin, path) == 0);
}

void report_plugins_of_others() {
    const char* const plugin = getenv(kProfilerVariable);
    if (plugin != nullptr && !names_us(plugin) && !is_switched_off("TITANTRACE_NCCL_PLUGIN")) {
        tracer::warn_once("%s=%s is yours, so NCCL's profiler plugin interface is left to it", kProfilerVariable,
                          plugin);
    }
    const char* const injection = getenv(kNvtxVariable);
    const char* const path = own_path();
    if (injection != nullptr && (path == nullptr || strcmp(injection, path) != 0) &&
        !is_switched_off("TITANTRACE_NVTX")) {
        tracer::warn_once("%s=%s is yours, so NVTX ranges are left to it", kNvtxVariable, injection);
    }
}

}  // namespace titan::interpose

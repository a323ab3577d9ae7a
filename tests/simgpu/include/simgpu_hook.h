// How the stand-in CUPTI hears of calls: one hook in libcuda.so.1, which the runtimes use too.
#ifndef SIMGPU_HOOK_H
#define SIMGPU_HOOK_H

#include <stdint.h>

enum { kSimgpuDriverApi = 1, kSimgpuRuntimeApi = 2 };  // CUPTI's domains
enum { kSimgpuEnter = 0, kSimgpuExit = 1 };            // CUPTI's sites

typedef struct SimgpuApiCall {
    int domain;
    uint32_t cbid;
    const char* name;
    const void* params;  // laid out as the structure of CUPTI's generated headers
    const void* result;  // at the exit
    const char* symbol;  // of a launch
    uint64_t data;       // the subscriber's, from enter to exit
    uint32_t correlation_id;
} SimgpuApiCall;

typedef void (*SimgpuApiHook)(int site, SimgpuApiCall* call);

// libcuda.so.1 exports a variable of this type as simgpu_api_hook.
typedef struct SimgpuHookState {
    SimgpuApiHook hook;  // null, or who wants to know
    uint32_t last_correlation_id;
} SimgpuHookState;
#endif

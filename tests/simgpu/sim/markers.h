// How the training programs tell what they do: titantrace's markers (or nothing where the tracer's header is not at
// hand), or, with --nvtx, what a framework tells NVTX.
#pragma once

#include <cstdint>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define SIMGPU_HAS_NVTX 1
#else
#define SIMGPU_HAS_NVTX 0
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop() ((void)0)
#define nvtxMarkA(name) ((void)(name))
#endif

#if __has_include("titantrace.h")
#include "titantrace.h"
#else
#define titan_step(step) ((void)(step))
#define titan_span_begin(name) ((void)(name))
#define titan_span_end() ((void)0)
#define titan_event(name) ((void)(name))
#define titan_metric(name, value) ((void)(name), (void)(value))
#define titan_label(key, value) ((void)(key), (void)(value))
#define titan_comm_name(comm, name) ((void)(comm), (void)(name))
#define titan_dump(reason) ((void)(reason))
#endif

namespace simgpu {

inline bool& use_nvtx() {
    static bool use = false;
    return use;
}

inline void mark(const char* name) {
    if (use_nvtx()) {
        nvtxMarkA(name);
    } else {
        titan_event(name);
    }
}

struct Span {
    explicit Span(const char* name) {
        if (use_nvtx()) {
            nvtxRangePushA(name);
        } else {
            titan_span_begin(name);
        }
    }
    ~Span() {
        if (use_nvtx()) {
            nvtxRangePop();
        } else {
            titan_span_end();
        }
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
};

}  // namespace simgpu

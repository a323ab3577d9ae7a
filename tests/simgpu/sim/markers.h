// titantrace's markers, or nothing where the tracer's header is not at hand.
#pragma once

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

struct Span {
    explicit Span(const char* name) { titan_span_begin(name); }
    ~Span() { titan_span_end(); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
};

}  // namespace simgpu

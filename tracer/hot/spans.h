// Spans: those of a thread, which nest, and those of tasks, which need not. hot.
#pragma once

#include "told.h"

namespace titan::tracer {

// A span that end_innermost_span ends. The id; 0 where there was no room for it: it is recorded all the same, unless it
// belongs to a task.
uint32_t begin_span(Thread& thread, const char* name, const Told& told);
// One that close_span ends, on any thread. 0 where there was no room for it.
uint32_t open_span(Thread& thread, const char* name, const Told& told);
// False: it is not open.
bool close_span(Thread& thread, uint32_t id, const Told& told);
// The calling thread's innermost one; without one nothing happens.
void end_innermost_span(Thread& thread, const Told& told);

// A span that another call has ended, or another thread, leaves the stack with the next look at it.
[[gnu::always_inline]] inline uint32_t depth_without_ended(const Thread& thread) {
    uint32_t depth = thread.record->span_depth;
    while (depth != 0 && depth <= kMaxThreadSpans && thread.spans[depth - 1].id != 0 &&
           !thread.session->open_spans.is_open(thread.spans[depth - 1].id)) {
        --depth;
    }
    return depth;
}

// The innermost span of the thread that nobody has ended; 0 none, or one without an id.
inline uint32_t innermost_span(const Thread& thread) {
    const uint32_t depth = depth_without_ended(thread);
    return depth != 0 && depth <= kMaxThreadSpans ? thread.spans[depth - 1].id : 0;
}

}  // namespace titan::tracer

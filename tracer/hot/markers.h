// Markers: how each is told (when, from where, for which task) and its entry of the ring; spans of a thread, which
// nest, and of tasks, which need not. hot.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "formats/layout/ring_layout.h"
#include "session.h"
#include "thread_state.h"

struct titan_mark;

// The place in the program that called the function which says so.
#define TITAN_CALLER __builtin_return_address(0)

namespace titan::tracer {

struct Told {
    uint32_t site = 0;
    uint32_t parent = 0;
    uint64_t ticks;  // read last: it need not be kept
    uint64_t task = 0;
};

inline Thread* thread_for_marker() { return attached_thread(MayStart::kRank); }

// Now, by that caller.
[[gnu::always_inline]] inline Told told_from(Thread& thread, const void* caller) {
    return {.site = thread.session->marker_sites.native(caller), .ticks = now_ticks()};
}
inline Told told_now() { return {.ticks = now_ticks()}; }
// As `mark` says, which may be null.
Told told_by(Thread& thread, const titan_mark* mark, const void* caller);

// Ids of spans and events as the program knows them carry the pid, so that those of a parent are known.
inline uint64_t public_id(const Session& session, uint32_t id) {
    return id == 0 ? 0 : static_cast<uint64_t>(static_cast<uint32_t>(session.identity.pid)) << 32 | id;
}
// 0: of another process.
inline uint32_t own_id(const Session& session, uint64_t id) {
    return id >> 32 == static_cast<uint32_t>(session.identity.pid) ? static_cast<uint32_t>(id) : 0;
}

inline format::MarkerEntry marker_of(format::MarkerKind kind, const Told& told) {
    format::MarkerEntry marker{};
    marker.kind = kind;
    marker.ticks = told.ticks;
    marker.site = told.site;
    return marker;
}

// Inline, so that the fields are set in one go. Its thread and step are filled in.
[[gnu::always_inline]] inline void record_marker(Session& session, uint32_t tid, const format::MarkerEntry& marker) {
    const uint64_t ticket = session.markers.claim();
    format::MarkerEntry& entry = session.markers.begin(ticket);
    entry.ticks = marker.ticks;
    entry.value = marker.value;
    entry.step = load_field(session.header->step);
    entry.name = marker.name;
    entry.text = marker.text;
    entry.thread = tid;
    entry.kind = marker.kind;
    entry.depth = marker.depth;
    entry.detail = marker.detail;
    entry.span = marker.span;
    entry.site = marker.site;
    entry.extra = marker.extra;
    session.markers.publish(entry, ticket);
}
[[gnu::always_inline]] inline void record_marker(Thread& thread, const format::MarkerEntry& marker) {
    record_marker(*thread.session, thread.tid, marker);
}

// An event marker by the id of its name; returns its own.
uint32_t mark_event(Thread& thread, uint32_t name, const Told& told);

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

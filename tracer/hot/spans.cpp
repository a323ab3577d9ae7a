#include "markers.h"

#define TITAN_IN_TRACER
#include "titantrace.h"

namespace titan::tracer {
namespace {

using format::MarkerEntry;
using format::MarkerKind;

[[gnu::always_inline]] inline void set_depth(Thread& thread, uint32_t depth) {
    store_field(thread.record->span_depth, depth);
    if (depth <= kMaxThreadSpans) {
        thread.span = depth != 0 ? thread.spans[depth - 1].name : 0;
    }
}

[[gnu::always_inline]] inline void push(Thread& thread, uint32_t depth, ThreadSpan span, uint64_t begin_ticks) {
    if (depth < format::kSpanDepth) {
        store_field(thread.record->spans[depth], span.name);
        store_field(thread.record->span_begin_ticks[depth], begin_ticks);
    } else {
        count_loss(*thread.session, format::Loss::kSpansTooDeep);
    }
    store_field(thread.record->span_depth, depth + 1);
    if (depth < kMaxThreadSpans) {
        thread.spans[depth] = span;
        thread.span = span.name;
    }
}

[[gnu::cold, gnu::noinline]] bool is_listed_name(Session& session, uint32_t name) {
    size_t length = 0;
    const char* const text = session.strings.text_of(name, length);
    return text == nullptr || is_listed(session.config.spans, text, length);
}

// Are markers of spans of that name wanted?
[[gnu::always_inline]] inline bool is_kept(Session& session, uint32_t name) {
    return session.config.spans[0] == '\0' || is_listed_name(session, name);
}

uint8_t shown(uint32_t depth) { return static_cast<uint8_t>(depth < UINT8_MAX ? depth : UINT8_MAX); }

// Who ends a span: titan_span_end() the innermost of the thread, so that each must be counted; or its id, which works
// without a place on the stack.
enum class EndedBy : uint8_t { kOrder, kId };

[[gnu::always_inline]] inline uint32_t begin(Thread& thread, const char* name, const Told& told, EndedBy ended_by) {
    Session& session = *thread.session;
    const uint32_t depth = depth_without_ended(thread);
    const bool nests = told.task == 0;
    format::OpenSpanRecord span{};
    span.begin_ticks = told.ticks;
    span.task = told.task;
    span.name = session.strings.intern_for_now(name);
    span.parent = told.parent;
    if (told.parent == 0 && nests && depth != 0 && depth <= kMaxThreadSpans) {
        span.parent = thread.spans[depth - 1].id;
    }
    span.thread = thread.tid;
    span.site = told.site;
    const uint32_t id = session.open_spans.open(span);
    if (id == 0) [[unlikely]] {
        count_loss(session, format::Loss::kSpansDropped);
        if (!nests) {
            return 0;
        }
    }
    MarkerEntry marker = marker_of(MarkerKind::kSpanBegin, told);
    marker.depth = nests ? shown(depth) : 0;
    if (!nests) {
        marker.detail = format::kSpanOfTask;
    } else if (ended_by == EndedBy::kOrder || depth < kMaxThreadSpans) {
        push(thread, depth, {id, span.name}, told.ticks);
    } else {
        count_loss(session, format::Loss::kSpansTooDeep);
    }
    marker.value = span.parent;
    marker.name = span.name;
    marker.span = id;
    marker.extra = told.task;
    if (is_kept(session, span.name)) {
        record_marker(thread, marker);
    }
    return id;
}

[[gnu::always_inline]] inline void record_end(Thread& thread, const OpenSpans::Begun& begun, uint32_t id,
                                              uint32_t depth, uint8_t detail, const Told& told) {
    MarkerEntry marker = marker_of(MarkerKind::kSpanEnd, told);
    marker.value = begun.ticks;
    marker.name = begun.name;
    marker.depth = shown(depth);
    marker.detail = detail;
    marker.span = id;
    if (is_kept(*thread.session, begun.name)) {
        record_marker(thread, marker);
    }
}

// Spans on top that somebody else has ended are passed over.
[[gnu::always_inline]] inline void end_innermost(Thread& thread, const Told& told) {
    uint32_t depth = thread.record->span_depth;
    uint32_t id = 0;
    OpenSpans::Begun begun{};
    do {
        if (depth == 0) {
            set_depth(thread, 0);
            return;
        }
        --depth;
        id = depth < kMaxThreadSpans ? thread.spans[depth].id : 0;
    } while (id != 0 && !thread.session->open_spans.close(id, begun));
    if (id == 0) [[unlikely]] {
        begun = {depth < format::kSpanDepth ? thread.record->span_begin_ticks[depth] : 0,
                 depth < kMaxThreadSpans ? thread.spans[depth].name : 0};
    }
    set_depth(thread, depth);
    record_end(thread, begun, id, depth, 0, told);
}

bool end(Thread& thread, uint32_t id, const Told& told) {
    OpenSpans::Begun begun{};
    const OpenSpans::Owner owner = thread.session->open_spans.owner_of(id);
    if (!thread.session->open_spans.close(id, begun)) {
        return false;
    }
    const uint32_t depth = depth_without_ended(thread);
    if (depth != thread.record->span_depth) {
        set_depth(thread, depth);
    }
    const bool of_thread = owner.task == 0 && owner.thread == thread.tid;
    record_end(thread, begun, id, of_thread ? depth : 0, owner.task != 0 ? format::kSpanOfTask : 0, told);
    return true;
}

}  // namespace

uint32_t begin_span(Thread& thread, const char* name, const Told& told) {
    return begin(thread, name, told, EndedBy::kOrder);
}
uint32_t open_span(Thread& thread, const char* name, const Told& told) {
    return begin(thread, name, told, EndedBy::kId);
}
bool close_span(Thread& thread, uint32_t id, const Told& told) { return end(thread, id, told); }
void end_innermost_span(Thread& thread, const Told& told) { end_innermost(thread, told); }

}  // namespace titan::tracer

using namespace titan::tracer;

void titan_span_begin(const char* name) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        begin(*thread, name, told_from(*thread, TITAN_CALLER), EndedBy::kOrder);
    }
}

void titan_span_end(void) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        end_innermost(*thread, told_now());
    }
}

uint64_t titan_span_open(const char* name, const titan_mark* mark) {
    Thread* const thread = thread_for_marker();
    if (thread == nullptr) {
        return 0;
    }
    const Told told = told_by(*thread, mark, TITAN_CALLER);
    return public_id(*thread->session, begin(*thread, name, told, EndedBy::kId));
}

void titan_span_close(uint64_t span, const titan_mark* mark) {
    Thread* const thread = span != 0 ? thread_for_marker() : nullptr;
    if (thread == nullptr) {
        return;
    }
    const uint32_t id = own_id(*thread->session, span);
    if (id == 0 || !end(*thread, id, told_by(*thread, mark, TITAN_CALLER))) {
        count_loss(*thread->session, titan::format::Loss::kSpansUnmatched);
    }
}

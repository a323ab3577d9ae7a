// The markers of titantrace.h. hot, any-thread.
#define TITAN_IN_TRACER
#include "markers.h"

#include <atomic>
#include <cstring>

#include "base/clock.h"
#include "base/hash.h"
#include "formats/layout/nccl_error.h"
#include "session.h"
#include "thread_state.h"
#include "titantrace.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::MarkerKind;

struct Marker {
    MarkerKind kind;
    uint32_t name = 0;
    uint32_t text = 0;
    uint64_t value = 0;
    uint32_t depth = 0;
};

[[gnu::always_inline]] inline void record_marker(Thread& thread, const Marker& marker, uint64_t now) {
    Session& session = *thread.session;
    const uint64_t ticket = session.markers.claim();
    format::MarkerEntry& entry = session.markers.begin(ticket);
    entry.ticks = now;
    entry.value = marker.value;
    entry.step = load_field(session.header->step);
    entry.name = marker.name;
    entry.text = marker.text;
    entry.thread = thread.tid;
    entry.kind = marker.kind;
    entry.depth = static_cast<uint8_t>(marker.depth < UINT8_MAX ? marker.depth : UINT8_MAX);
    session.markers.publish(entry, ticket);
}

void begin_span(Thread& thread, const char* name) {
    format::ThreadRecord& record = *thread.record;
    const uint64_t now = now_ticks();
    const uint32_t id = thread.session->strings.intern_for_now(name);
    const uint32_t depth = record.span_depth;
    if (depth < format::kSpanDepth) {
        store_field(record.spans[depth], id);
        store_field(record.span_begin_ticks[depth], now);
        thread.span = id;
    } else {
        count_loss(*thread.session, format::Loss::kSpansTooDeep);
    }
    store_field(record.span_depth, depth + 1);
    record_marker(thread, {.kind = MarkerKind::kSpanBegin, .name = id, .depth = depth}, now);
}

void end_span(Thread& thread) {
    format::ThreadRecord& record = *thread.record;
    if (record.span_depth == 0) {
        return;
    }
    const uint32_t depth = record.span_depth - 1;
    const bool known = depth < format::kSpanDepth;
    const Marker marker{.kind = MarkerKind::kSpanEnd,
                        .name = known ? record.spans[depth] : 0,
                        .value = known ? record.span_begin_ticks[depth] : 0,
                        .depth = depth};
    store_field(record.span_depth, depth);
    if (depth <= format::kSpanDepth) {
        thread.span = depth > 0 ? record.spans[depth - 1] : 0;
    }
    record_marker(thread, marker, now_ticks());
}

}  // namespace

void mark_event(Thread& thread, uint32_t name) {
    record_marker(thread, {.kind = MarkerKind::kEvent, .name = name}, now_ticks());
}

// A program may ask again and again: each text once, and again in another session.
void note_last_error(const char* text) {
    static std::atomic<uint64_t> newest{0};
    if (text == nullptr || text[0] == '\0') {
        return;
    }
    const uint64_t hash = fnv1a64(text, strlen(text)) ^ reinterpret_cast<uint64_t>(session());
    if (newest.exchange(hash, std::memory_order_relaxed) != hash) {
        titan_label(format::kNcclErrorLabel, text);
    }
}

}  // namespace titan::tracer

using titan::now_ticks;
using titan::store_field;
using titan::format::MarkerKind;
using namespace titan::tracer;

void titan_step(int64_t step) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        const uint64_t now = now_ticks();
        store_field(thread->session->header->step, step);
        store_field(thread->session->header->step_ticks, now);
        record_marker(*thread, {.kind = MarkerKind::kStep, .value = static_cast<uint64_t>(step)}, now);
    }
}

void titan_span_begin(const char* name) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        begin_span(*thread, name);
    }
}

void titan_span_end(void) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        end_span(*thread);
    }
}

void titan_event(const char* name) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        record_marker(*thread, {.kind = MarkerKind::kEvent, .name = thread->session->strings.intern_for_now(name)},
                      now_ticks());
    }
}

void titan_metric(const char* name, double value) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        const uint32_t id = thread->session->strings.intern_for_now(name);
        record_marker(*thread, {.kind = MarkerKind::kMetric, .name = id, .value = bits}, now_ticks());
    }
}

void titan_label(const char* key, const char* value) {
    if (Thread* const thread = attached_thread(MayStart::kRank); thread != nullptr) {
        StringTable& strings = thread->session->strings;
        const Marker marker{
            .kind = MarkerKind::kLabel, .name = strings.intern_for_now(key), .text = strings.intern_for_now(value)};
        record_marker(*thread, marker, now_ticks());
    }
}

void titan_comm_name(void* nccl_comm, const char* name) {
    Session* const current = session();
    if (current == nullptr) {
        return;
    }
    if (Communicator* const communicator = current->communicators.find(nccl_comm); communicator != nullptr) {
        store_field(communicator->record->name, current->strings.intern_for_now(name));
    }
}

// The markers of titantrace.h. hot, any-thread.
#define TITAN_IN_TRACER
#include "markers.h"

#include <time.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "base/hash.h"
#include "formats/layout/label_names.h"
#include "tick_times.h"
#include "titantrace.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::MarkerEntry;
using format::MarkerKind;

uint32_t name_of(const Thread& thread, const char* text) { return thread.session->strings.intern_for_now(text); }

void mark_step(int64_t step, int64_t relative_step, bool has_relative, const void* caller) {
    Thread* const thread = thread_for_marker();
    if (thread == nullptr) {
        return;
    }
    MarkerEntry marker = marker_of(MarkerKind::kStep, told_from(*thread, caller));
    store_field(thread->session->header->step, step);
    store_field(thread->session->header->step_ticks, marker.ticks);
    marker.value = static_cast<uint64_t>(step);
    marker.detail = has_relative ? 1 : 0;
    marker.extra = static_cast<uint64_t>(relative_step);
    record_marker(*thread, marker);
}

struct Value {
    double value;
    double weight;
    format::MetricReduction reduction;
};

[[gnu::always_inline]] inline void mark_metric(Thread& thread, uint32_t name, const Value& value, const Told& told) {
    MarkerEntry marker = marker_of(MarkerKind::kMetric, told);
    marker.name = name;
    marker.value = std::bit_cast<uint64_t>(value.value);
    marker.extra = std::bit_cast<uint64_t>(value.weight);
    marker.detail = static_cast<uint8_t>(value.reduction);
    marker.span = innermost_span(thread);
    record_marker(thread, marker);
}

// An attribute or an error of a span or an event.
void mark_about(uint64_t id, MarkerKind kind, const char* key, MarkerEntry marker, const char* text,
                const void* caller) {
    Thread* const thread = thread_for_marker();
    if (thread == nullptr) {
        return;
    }
    const uint32_t about = id == 0 ? innermost_span(*thread) : own_id(*thread->session, id);
    if (about == 0) {
        count_loss(*thread->session, format::Loss::kSpansUnmatched);
        return;
    }
    const Told told = told_from(*thread, caller);
    marker.kind = kind;
    marker.ticks = told.ticks;
    marker.site = told.site;
    marker.name = name_of(*thread, key);
    marker.text = name_of(*thread, text);
    marker.span = about;
    record_marker(*thread, marker);
}

[[gnu::always_inline]] inline uint32_t record_event(Thread& thread, uint32_t name, const Told& told) {
    MarkerEntry marker = marker_of(MarkerKind::kEvent, told);
    marker.name = name;
    marker.span = thread.session->open_spans.next_id();
    marker.extra = told.task;
    record_marker(thread, marker);
    return marker.span;
}

void mark_label(const char* key, const char* value, const void* caller) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        MarkerEntry marker = marker_of(MarkerKind::kLabel, caller != nullptr ? told_from(*thread, caller) : told_now());
        marker.name = name_of(*thread, key);
        marker.text = name_of(*thread, value);
        thread->session->labels.set(marker.name, marker.text, marker.ticks, marker.site);
        record_marker(*thread, marker);
    }
}

MarkerEntry attribute_of(format::AttributeType type, uint64_t bits) {
    MarkerEntry marker{};
    marker.detail = static_cast<uint8_t>(type);
    marker.value = bits;
    return marker;
}

}  // namespace

[[gnu::noinline]] Told told_by(Thread& thread, const titan_mark* mark, const void* caller) {
    if (mark == nullptr) {
        return told_from(thread, caller);
    }
    titan_mark known{};  // a program that was built with another header has another size of its own
    memcpy(&known, mark, mark->bytes < sizeof(known) ? mark->bytes : sizeof(known));
    Told told{.site = known.site, .parent = own_id(*thread.session, known.parent), .ticks = 0, .task = known.task};
    if (told.site == 0) {
        told.site = thread.session->marker_sites.native(caller);
    }
    if (known.time_ns <= 0) {
        told.ticks = now_ticks();
    } else {
        const TickTimes times(*thread.session->header);
        told.ticks = known.clock == CLOCK_MONOTONIC ? times.ticks_at_monotonic(known.time_ns)
                                                    : times.ticks_at_realtime(known.time_ns);
    }
    return told;
}

uint32_t mark_event(Thread& thread, uint32_t name, const Told& told) { return record_event(thread, name, told); }

// A program may ask again and again: each text once, and again in another session.
void note_last_error(const char* text) {
    static std::atomic<uint64_t> newest{0};
    if (text == nullptr || text[0] == '\0') {
        return;
    }
    const uint64_t hash = fnv1a64(text, strlen(text)) ^ reinterpret_cast<uint64_t>(session());
    if (newest.exchange(hash, std::memory_order_relaxed) != hash) {
        mark_label(format::kNcclErrorLabel, text, nullptr);
    }
}

}  // namespace titan::tracer

using titan::store_field;
using namespace titan::tracer;
using titan::format::AttributeType;
using titan::format::MarkerEntry;
using titan::format::MarkerKind;
using titan::format::MetricReduction;

void titan_step(int64_t step) { mark_step(step, 0, false, TITAN_CALLER); }

void titan_step_relative(int64_t step, int64_t relative_step) { mark_step(step, relative_step, true, TITAN_CALLER); }

void titan_step_tag(const char* tag) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        MarkerEntry marker = marker_of(MarkerKind::kStepTag, told_from(*thread, TITAN_CALLER));
        marker.name = name_of(*thread, tag);
        record_marker(*thread, marker);
    }
}

void titan_event(const char* name) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        record_event(*thread, name_of(*thread, name), told_from(*thread, TITAN_CALLER));
    }
}

uint64_t titan_event_at(const char* name, const titan_mark* mark) {
    Thread* const thread = thread_for_marker();
    return thread == nullptr ? 0
                             : public_id(*thread->session, mark_event(*thread, name_of(*thread, name),
                                                                      told_by(*thread, mark, TITAN_CALLER)));
}

void titan_error(uint64_t id, const char* message) {
    mark_about(id, MarkerKind::kError, "", MarkerEntry{}, message, TITAN_CALLER);
}

void titan_attribute_text(uint64_t id, const char* key, const char* value) {
    mark_about(id, MarkerKind::kAttribute, key, attribute_of(AttributeType::kText, 0), value, TITAN_CALLER);
}

void titan_attribute_integer(uint64_t id, const char* key, int64_t value) {
    mark_about(id, MarkerKind::kAttribute, key, attribute_of(AttributeType::kInteger, static_cast<uint64_t>(value)), "",
               TITAN_CALLER);
}

void titan_attribute_double(uint64_t id, const char* key, double value) {
    mark_about(id, MarkerKind::kAttribute, key, attribute_of(AttributeType::kDouble, std::bit_cast<uint64_t>(value)),
               "", TITAN_CALLER);
}

void titan_metric(const char* name, double value) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        const uint32_t id = name_of(*thread, name);
        mark_metric(*thread, id, {value, 1, MetricReduction::kNotTold}, told_from(*thread, TITAN_CALLER));
    }
}

void titan_metric_as(const char* name, double value, double weight, int reduction, const titan_mark* mark) {
    if (Thread* const thread = thread_for_marker(); thread != nullptr) {
        const bool known = reduction >= TITAN_REDUCE_NONE && reduction <= TITAN_REDUCE_LAST;
        const auto meant = known ? static_cast<MetricReduction>(reduction) : MetricReduction::kNotTold;
        mark_metric(*thread, name_of(*thread, name), {value, weight, meant}, told_by(*thread, mark, TITAN_CALLER));
    }
}

void titan_label(const char* key, const char* value) { mark_label(key, value, TITAN_CALLER); }

uint32_t titan_site(const char* place) {
    Thread* const thread = place != nullptr && place[0] != '\0' ? thread_for_marker() : nullptr;
    return thread == nullptr ? 0 : thread->session->marker_sites.told(place, strlen(place), thread->session->strings);
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

#include "tracer/ranges.h"

#include "base/clock.h"
#include "markers.h"
#include "session.h"
#include "thread_state.h"

namespace titan::tracer {

namespace {

constexpr uint32_t kMaxOpenRanges = 32;  // a few hundred bytes of every thread: more are counted as dropped

struct OpenRange {
    const void* domain;
    bool recorded;  // a span stands for it
    bool ended;
};

// The calling thread's open ranges of all domains, recorded or not.
struct OpenRanges {
    Session* session;  // the one that has the spans
    uint32_t count;
    uint32_t too_many;  // open beyond what is kept
    OpenRange ranges[kMaxOpenRanges];
};
constinit __attribute__((tls_model("initial-exec"))) thread_local OpenRanges open_ranges{};

// One window of a second for the whole process.
constinit std::atomic<uint64_t> window_start_ticks{0};
constinit std::atomic<uint32_t> window_ranges{0};

bool within_limit(Session& session) {
    const uint64_t now = now_ticks();
    uint64_t start = window_start_ticks.load(std::memory_order_relaxed);
    if (now - start > session.header->ticks_per_second &&
        window_start_ticks.compare_exchange_strong(start, now, std::memory_order_relaxed)) {
        window_ranges.store(0, std::memory_order_relaxed);
    }
    return window_ranges.fetch_add(1, std::memory_order_relaxed) < session.config.nvtx_per_second;
}

// The calling thread if this range may be recorded, else null.
Thread* thread_for_range() {
    Thread* const thread = attached_thread(MayStart::kRank);
    if (thread == nullptr || thread->session->config.nvtx_per_second == 0) {
        return nullptr;
    }
    if (!within_limit(*thread->session)) {
        count_loss(*thread->session, format::Loss::kRangesDropped);
        return nullptr;
    }
    return thread;
}

OpenRanges& ranges_of_thread() {
    OpenRanges& open = open_ranges;
    if (Session* const current = session(); open.session != current) {
        for (uint32_t i = 0; i < open.count; ++i) {
            open.ranges[i].recorded = false;  // spans of a session that is over for this process
        }
        open.session = current;
    }
    return open;
}

int count_of(const OpenRanges& open, const void* domain) {
    int count = 0;
    for (uint32_t i = 0; i < open.count; ++i) {
        count += open.ranges[i].domain == domain && !open.ranges[i].ended ? 1 : 0;
    }
    return count;
}

// Ranges that overlap as they like are spans of tasks: numbers that no task of a program has.
constexpr uint64_t kRangeTask = uint64_t{1} << 62;
constinit std::atomic<uint64_t> range_number{0};

}  // namespace

int range_push(const void* domain, const char* name) {
    Thread* const recorded = thread_for_range();  // first: it may start the session that the ranges belong to
    OpenRanges& open = ranges_of_thread();
    const int level = count_of(open, domain);
    if (open.count == kMaxOpenRanges) {
        ++open.too_many;
        if (recorded != nullptr) {
            count_loss(*recorded->session, format::Loss::kRangesDropped);
        }
        return level;
    }
    open.ranges[open.count++] = {domain, recorded != nullptr, false};
    if (recorded != nullptr) {
        begin_span(*recorded, name, told_now());
    }
    return level;
}

int range_pop(const void* domain) {
    OpenRanges& open = ranges_of_thread();
    if (open.too_many > 0) {
        --open.too_many;
        return count_of(open, domain);
    }
    uint32_t at = open.count;
    while (at > 0 && (open.ranges[at - 1].domain != domain || open.ranges[at - 1].ended)) {
        --at;
    }
    if (at == 0) {
        return -1;
    }
    open.ranges[at - 1].ended = true;
    while (open.count > 0 && open.ranges[open.count - 1].ended) {
        Thread* const thread = open.ranges[--open.count].recorded ? attached_thread(MayStart::kRank) : nullptr;
        if (thread != nullptr) {
            end_innermost_span(*thread, told_now());
        }
    }
    return count_of(open, domain);
}

uint64_t range_start(const char* name) {
    Thread* const recorded = thread_for_range();
    if (recorded == nullptr) {
        return 0;
    }
    Told told = told_now();
    told.task = kRangeTask | range_number.fetch_add(1, std::memory_order_relaxed);
    return public_id(*recorded->session, open_span(*recorded, name, told));
}

void range_end(uint64_t id) {
    Thread* const thread = id != 0 ? attached_thread(MayStart::kNever) : nullptr;
    if (thread == nullptr) {
        return;
    }
    const uint32_t own = own_id(*thread->session, id);
    if (own == 0 || !close_span(*thread, own, told_now())) {
        count_loss(*thread->session, format::Loss::kSpansUnmatched);
    }
}

void range_mark(const char* name) {
    if (Thread* const recorded = thread_for_range(); recorded != nullptr) {
        mark_event(*recorded, recorded->session->strings.intern_for_now(name), told_now());
    }
}

}  // namespace titan::tracer

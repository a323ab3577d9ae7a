// The record of what a program hands to its streams beside NCCL's calls: kernels, copies, events. hot.
#include "record_work.h"

#include "clock.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/graphs.h"
#include "tracer/record.h"

namespace titan::tracer {

constinit std::atomic<bool> cuda_interposed{true};

namespace {

using format::WorkKind;

constexpr uint64_t kNotRecorded = ~uint64_t{0};  // no ring gets as far as this ticket

// Sampling never leaves out what orders streams: a wait without its record would be a riddle.
constexpr bool is_always_recorded(WorkKind kind) {
    return kind == WorkKind::kEventRecord || kind == WorkKind::kEventWait || kind == WorkKind::kGraphLaunch;
}

bool is_sampled(uint32_t sample, uint64_t launches) { return sample != 0 && launches % sample == 0; }

uint64_t count_launch(Thread& thread) {
    const uint64_t before = thread.record->launches;
    store_field(thread.record->launches, before + 1);
    return before;
}

uint64_t write_entry(Thread& thread, uint32_t api_name, uint32_t name, const StreamWork& work, uint8_t flags,
                     uint64_t now) {
    Session& session = *thread.session;
    const uint64_t ticket = session.stream_work.claim();
    format::StreamWorkEntry& entry = session.stream_work.begin(ticket);
    entry.entered_ticks = now;
    entry.stream = reinterpret_cast<uint64_t>(work.stream);
    entry.object = reinterpret_cast<uint64_t>(work.object);
    entry.amount = work.amount;
    entry.name = name;
    entry.thread = thread.tid;
    entry.call = api_name;
    entry.kind = work.kind;
    entry.flags = flags;
    session.stream_work.publish(entry, ticket);
    return ticket;
}

// Field by field: what a launch of NCCL's needs beside is left as it is.
void begin(Call& call, Thread* thread, uint64_t ticket, bool unnamed) {
    call.thread = thread;
    call.ticket = ticket;
    call.communicator = nullptr;
    call.op_class = format::OpClass::none;
    call.unnamed = unnamed;
}

}  // namespace

uint64_t write_work(Thread& thread, uint16_t api, const StreamWork& work, uint8_t flags, uint64_t now) {
    count_launch(thread);
    const uint32_t api_name = thread.session->api_names[api];
    return write_entry(thread, api_name, api_name, work, flags, now);
}

bool enter_work(Call& call, uint16_t api, const StreamWork& work) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    const uint64_t launches = count_launch(*thread);
    mark_inside(*thread, api, reinterpret_cast<uint64_t>(work.stream), 0, now);
    const uint32_t sample = session.config.launch_sample;
    if (sample != 1 && !is_always_recorded(work.kind) && !is_sampled(sample, launches)) {
        begin(call, thread, kNotRecorded, false);
        return true;
    }
    const uint32_t api_name = session.api_names[api];
    const uint32_t kernel = work.function != FunctionKind::kNone ? session.kernel_names.find(work.object) : api_name;
    const uint8_t flags = is_capturing(work.stream) ? format::kWorkCaptured : 0;
    begin(call, thread, write_entry(*thread, api_name, kernel != 0 ? kernel : api_name, work, flags, now), kernel == 0);
    return true;
}

void leave_work(Call& call, int) {
    mark_outside(*call.thread, call.thread->record->entered_ticks);
    --call.thread->nested;
}

[[gnu::cold]] void name_kernel(Call& call, FunctionKind kind, const void* function, const void* real) {
    Session& session = *call.thread->session;
    char text[kMaxStringBytes + 1];
    // In relaxed mode no question of this thread can spoil a capture, its own or another thread's.
    const bool has_driver = learn_driver(session);
    int capture_mode = kCaptureModeRelaxed;
    const bool exchanged = has_driver && session.driver.exchange_capture_mode(&capture_mode) == kCudaSuccess;
    uint32_t name = find_kernel_name(kind, function, real, text, sizeof text) ? session.strings.intern(text) : 0;
    if (exchanged) {
        session.driver.exchange_capture_mode(&capture_mode);
    }
    if (name == 0) {
        // Nobody knows it: not asked again, until the handle means something else.
        name = load_field(call.thread->record->call);
    }
    session.kernel_names.remember(function, name);
    if (format::StreamWorkEntry* const entry = session.stream_work.find(call.ticket); entry != nullptr) {
        store_field(entry->name, name);
    }
}

void note_kernels_gone() {
    if (Session* const current = session(); current != nullptr) {
        current->kernel_names.clear();
    }
}

bool enter_query(Call& call) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    store_field(thread->record->queries, thread->record->queries + 1);
    begin(call, thread, kNotRecorded, false);
    return true;
}

void leave_query(Call& call) { --call.thread->nested; }

}  // namespace titan::tracer

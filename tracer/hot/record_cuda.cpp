// The records beside NCCL's calls: calls that the host waits in, and what a program hands to its streams (kernels,
// copies, events). hot.
#include "base/clock.h"
#include "record_launch.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

bool enter_mark_of(Thread* thread, Call& call, uint16_t api, const void* object) {
    if (thread == nullptr) {
        return false;
    }
    go_inside(*thread, call);
    begin_call(call, *thread, 0);
    mark_inside(*thread, api, reinterpret_cast<uint64_t>(object), 0, now_ticks());
    return true;
}

}  // namespace

bool enter_mark(Call& call, uint16_t api, const void* object) {
    return enter_mark_of(outermost_thread(MayStart::kAlways), call, api, object);
}

bool enter_cuda_mark(Call& call, uint16_t api, const void* object) {
    return enter_mark_of(outermost_thread(MayStart::kRank), call, api, object);
}

void leave_mark(Call& call) {
    mark_outside(*call.thread, now_ticks());
    go_outside(*call.thread);
}

bool enter_cuda(Call& call, uint16_t api, const void* object) {
    Thread* const thread = outermost_thread(MayStart::kRank);
    if (thread == nullptr) {
        return false;
    }
    go_inside(*thread, call);
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    const uint64_t ticket = session.cuda_calls.claim();
    format::CudaCallEntry& entry = session.cuda_calls.begin(ticket);
    entry.entered_ticks = now;
    entry.returned_ticks = 0;
    entry.object = reinterpret_cast<uint64_t>(object);
    entry.step = load_field(session.header->step);
    entry.name = session.api_names[api];
    entry.thread = thread->tid;
    entry.result = -1;
    entry.span = thread->span;
    session.cuda_calls.publish(entry, ticket);
    begin_call(call, *thread, ticket);
    mark_inside(*thread, api, entry.object, ticket + 1, now);
    return true;
}

void leave_cuda(Call& call, int result) {
    Thread& thread = *call.thread;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    if (format::CudaCallEntry* const entry = thread.session->cuda_calls.find(call.ticket); entry != nullptr) {
        store_field(entry->returned_ticks, now);
        store_field(entry->result, result);
    }
    go_outside(thread);
}

constinit std::atomic<bool> cuda_interposed{true};

namespace {

// All launches are recorded, and the clock is one instruction: one look at this instead of three.
constinit std::atomic<uint32_t> launches_are_usual{0};

}  // namespace

void set_cuda_interposed(bool interposed) {
    const Session* const current = session();
    cuda_interposed.store(interposed, std::memory_order_relaxed);
    launches_are_usual.store(
        interposed && clock_is_quick() && current != nullptr && current->config.launch_sample == 1 ? 1 : 0,
        std::memory_order_relaxed);
}

namespace {

using format::WorkKind;

// Sampling never leaves out what orders streams: a wait without its record would be a riddle.
constexpr bool is_always_recorded(WorkKind kind) {
    return kind == WorkKind::kEventRecord || kind == WorkKind::kEventWait || kind == WorkKind::kGraphLaunch;
}

bool is_sampled(uint32_t sample, uint64_t launches) { return sample != 0 && launches % sample == 0; }

uint64_t count_launch(format::ThreadRecord& record) {
    const uint64_t before = record.launches;
    store_field(record.launches, before + 1);
    return before;
}

struct Work {
    uint32_t api_name;
    uint32_t name;
    uint32_t thread;
    const void* stream;
    const void* object;
    uint64_t amount;
    WorkKind kind;
    uint8_t flags;
};

[[gnu::always_inline]] inline void fill(format::StreamWorkEntry& entry, const Work& work) {
    entry.stream = reinterpret_cast<uint64_t>(work.stream);
    entry.object = reinterpret_cast<uint64_t>(work.object);
    entry.amount = work.amount;
    store_field(entry.name, work.name);
    store_field(entry.thread, work.thread);  // apart from its neighbour: no vector is made of the two
    entry.call = work.api_name;
    entry.kind = work.kind;
    entry.flags = work.flags;
}

uint64_t write_entry(Session& session, const Work& work, uint64_t now) {
    const uint64_t ticket = session.stream_work.claim();
    format::StreamWorkEntry& entry = session.stream_work.begin(ticket);
    fill(entry, work);
    entry.entered_ticks = now;
    session.stream_work.publish(entry, ticket);
    return ticket;
}

// As mark_outside, but without naming the thread's newest finished call: launches come by the thousand, and have a ring
// of their own.
void mark_launched(Thread& thread) {
    format::ThreadRecord& record = *thread.record;
    std::atomic_ref(record.entered_ticks).store(0, std::memory_order_release);
    store_field(record.call, uint32_t{0});
}

}  // namespace

uint64_t write_work(Thread& thread, uint16_t api, const StreamWork& work, uint8_t flags, uint64_t now) {
    count_launch(*thread.record);
    const uint32_t name = thread.session->api_names[api];
    return write_entry(*thread.session,
                       {name, name, thread.tid, work.stream, work.object, work.amount, work.kind, flags}, now);
}

namespace {

// Everything but the usual case: no thread yet, another clock, sampling, a capture, a kernel without a name.
template <bool kIsKernel>
[[gnu::noinline]] WorkState enter_unusual(const void* stream, const void* object, uint64_t api, uint64_t amount,
                                          WorkKind kind) {
    Thread* const thread = cuda_is_interposed() ? outermost_thread(MayStart::kRank) : nullptr;
    if (thread == nullptr) {
        return WorkState::kNotRecorded;
    }
    go_inside_here(*thread);
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    const uint64_t launches = count_launch(*thread->record);
    const uint32_t api_name = session.api_names[api];
    mark_inside_call(*thread->record, api_name, reinterpret_cast<uint64_t>(stream), 0, now);
    const uint32_t sample = session.config.launch_sample;
    if (sample != 1 && !is_always_recorded(kind) && !is_sampled(sample, launches)) {
        return WorkState::kEntered;
    }
    uint32_t name = api_name;
    const bool named = !kIsKernel || session.kernel_names.find(object, name);
    const uint8_t flags = session.graphs.knows_captured(stream) ? format::kWorkCaptured : 0;
    const uint64_t ticket =
        write_entry(session, {api_name, name, thread->tid, stream, object, amount, kind, flags}, now);
    thread->work_ticket = ticket;
    return named ? WorkState::kEntered : WorkState::kUnnamed;
}

// The same without a call in it, so that the compiler needs no register but those that a call may change anyway.
template <bool kIsKernel>
[[gnu::always_inline]] inline WorkState enter(const void* stream, const void* object, uint64_t api, uint64_t amount,
                                              WorkKind kind) {
    Thread* const thread = this_thread();
    Session* const session = thread->session;
    if (session == nullptr || launches_are_usual.load(std::memory_order_relaxed) == 0 || session->graphs.any_capture())
        [[unlikely]] {
        return enter_unusual<kIsKernel>(stream, object, api, amount, kind);
    }
    if (thread->inside != 0) {
        return WorkState::kNotRecorded;
    }
    const uint32_t api_name = session->api_names[api];
    uint32_t name = api_name;
    if (kIsKernel && !session->kernel_names.find(object, name)) [[unlikely]] {
        return enter_unusual<kIsKernel>(stream, object, api, amount, kind);
    }
    go_inside_here(*thread);
    // Fill the known fields first; reading the clock needs two registers.
    const uint64_t ticket = session->stream_work.claim();
    format::StreamWorkEntry& entry = session->stream_work.begin(ticket);
    session->stream_work.fetch_next(entry);
    fill(entry, {api_name, name, thread->tid, stream, object, amount, kind, 0});
    format::ThreadRecord& record = *thread->record;
    count_launch(record);
    const uint64_t now = quick_now_ticks();
    entry.entered_ticks = now;
    mark_inside_call(record, api_name, reinterpret_cast<uint64_t>(stream), 0, now);
    session->stream_work.publish(entry, ticket);
    return WorkState::kEntered;
}

}  // namespace

WorkState enter_work(const void* stream, const void* object, uint64_t api, uint64_t amount, uint64_t kind) {
    return enter<false>(stream, object, api, amount, static_cast<WorkKind>(kind));
}

WorkState enter_kernel(const void* stream, const void* function, uint64_t api, uint64_t blocks) {
    return enter<true>(stream, function, api, blocks, WorkKind::kKernel);
}

int leave_work(int result) {
    Thread& thread = *this_thread();
    mark_launched(thread);
    go_outside(thread);
    return result;
}

bool enter_reported_work(Call& call, uint16_t api, const StreamWork& work, const char* kernel) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    go_inside_here(*thread);
    call.thread = thread;
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    const uint64_t launches = count_launch(*thread->record);
    const uint32_t api_name = session.api_names[api];
    mark_inside_call(*thread->record, api_name, reinterpret_cast<uint64_t>(work.stream), 0, now);
    const uint32_t sample = session.config.launch_sample;
    if (sample != 1 && !is_always_recorded(work.kind) && !is_sampled(sample, launches)) {
        return true;
    }
    const uint32_t told = session.strings.intern(kernel);
    const uint8_t flags = session.graphs.knows_captured(work.stream) ? format::kWorkCaptured : 0;
    write_entry(
        session,
        {api_name, told != 0 ? told : api_name, thread->tid, work.stream, work.object, work.amount, work.kind, flags},
        now);
    return true;
}

void leave_reported_work(Call& call) {
    mark_launched(*call.thread);
    go_outside(*call.thread);
}

void forget_kernels() {
    if (Session* const current = session(); current != nullptr) {
        current->kernel_names.clear();
    }
}

bool enter_query(Call& call, uint16_t api, const void* object) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    go_inside(*thread, call);
    format::ThreadRecord& record = *thread->record;
    store_field(record.queries, record.queries + 1);
    store_field(record.polls, record.polls + 1);
    store_field(record.object, reinterpret_cast<uint64_t>(object));
    store_field(record.last_call, thread->session->api_names[api]);
    call.thread = thread;
    return true;
}

void leave_query(Call& call) {
    store_field(call.thread->record->last_call_ticks, now_ticks());
    go_outside(*call.thread);
}

}  // namespace titan::tracer

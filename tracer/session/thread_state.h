// The tracer's state per thread: nesting, the open group, spans, and the row that shows others what it is inside.
#pragma once

#include <cstdint>

#include "formats/layout/ring_layout.h"
#include "session.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxPendingCreates = 64;
inline constexpr uint32_t kMaxGroupStreams = 16;
inline constexpr uint32_t kMaxThreadSpans = 32;

// A communicator whose handle NCCL hands out when the open group ends.
struct PendingCreate {
    Communicator* communicator;
    void** result;
};

// A span of a thread's stack: its row among the open spans tells whether it has been ended meanwhile, by whomever.
struct ThreadSpan {
    uint32_t id;  // 0: it found no row
    uint32_t name;
};

// owner-thread, except `record`, which readers see. Trivial, so that the thread-local needs no constructor.
struct Thread : Nesting {
    Session* session;  // the one that the fields below belong to
    format::ThreadRecord* record;
    uint32_t tid;
    uint32_t span;  // name of the innermost open span
    uint32_t group_depth;
    uint32_t group_calls;
    uint32_t pending_creates;
    uint64_t group;  // 0 outside groups
    uint64_t group_first_ticket;
    uint64_t group_last_ticket;
    AddressRange stack;    // empty: nothing of its native stack may be read
    uint64_t work_ticket;  // newest entry of this thread whose kernel has no name yet
    PendingCreate creates[kMaxPendingCreates];
    uint32_t group_launches;  // streams of the group that is being ended
    Launch launches[kMaxGroupStreams];
    ThreadSpan spans[kMaxThreadSpans];  // outermost first; their number is record->span_depth, which may exceed them
};

// The calling thread's state. A thread that has recorded nothing has a shared one without a session, never null, so
// that the hot path need not check.
inline Thread* this_thread() { return static_cast<Thread*>(this_nesting); }

// Calls that may start a session: NCCL's always, markers and CUDA's only in a rank's process, those that end something
// never.
enum class MayStart : uint8_t { kAlways, kRank, kNever };

// Functions that start a session: only start/ knows all its parts. Each returns null if nothing is recorded.
struct Starters {
    Session* (*always)();
    Session* (*of_rank)();
};
// Once, before any call is recorded.
void set_starters(const Starters& given);

// A new session needs states of its own, and a key whose destructor gives back the row that an ending thread has in the
// ring's threads table. cold.
bool start_threads_table();

// Does in a forked child what kernels before 4.14 do not do.
void wipe_threads_table();

// Cold: the calling thread's first call in this session, or no session yet. Null when nothing may be recorded.
Thread* attach_thread(MayStart may_start);

// The calling thread's state; null when nothing may be recorded. hot once attached.
inline Thread* attached_thread(MayStart may_start) {
    Thread* const thread = this_thread();
    // The kernel wipes the states in a forked child: no session there either.
    if (thread->session == nullptr) [[unlikely]] {
        return attach_thread(may_start);
    }
    return thread;
}

// For calls that may be nested in one another: null inside a recorded one.
inline Thread* outermost_thread(MayStart may_start) {
    Thread* const thread = attached_thread(may_start);
    return thread != nullptr && thread->inside == 0 ? thread : nullptr;
}

// A recorded call begins and ends: until then nothing that it calls is recorded. `call` lies in the wrapper's frame;
// where there is none, the stack pointer is near enough. hot.
inline void go_inside(Thread& thread, const Call& call) { thread.inside = reinterpret_cast<uintptr_t>(&call); }
inline void go_inside_here(Thread& thread) {
#if defined(__x86_64__)
    asm("movq %%rsp, %0" : "=m"(thread.inside));
#else
    thread.inside = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
}
inline void go_outside(Thread& thread) { thread.inside = 0; }

// Sets field by field: fields that only some calls need stay as they are. hot.
inline void begin_call(Call& call, Thread& thread, uint64_t ticket) {
    call.thread = &thread;
    call.ticket = ticket;
    call.communicator = nullptr;
    call.traits = 0;
}

// hot. `call` is a text of the session.
inline void mark_inside_call(format::ThreadRecord& record, uint32_t call, uint64_t object, uint64_t ticket_plus_one,
                             uint64_t ticks) {
    store_field(record.call, call);
    store_field(record.object, object);
    store_field(record.ticket, ticket_plus_one);
    store_field(record.polls, uint32_t{0});
    std::atomic_ref(record.entered_ticks).store(ticks, std::memory_order_release);
}

inline void mark_inside(Thread& thread, uint16_t api, uint64_t object, uint64_t ticket_plus_one, uint64_t ticks) {
    mark_inside_call(*thread.record, thread.session->api_names[api], object, ticket_plus_one, ticks);
}

inline void mark_outside(Thread& thread, uint64_t ticks) {
    format::ThreadRecord& record = *thread.record;
    std::atomic_ref(record.entered_ticks).store(0, std::memory_order_release);
    store_field(record.last_call, record.call);
    store_field(record.last_call_ticks, ticks);
    store_field(record.call, uint32_t{0});
}

}  // namespace titan::tracer

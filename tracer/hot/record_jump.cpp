// Calls that a longjmp leaves, as programs do that bound a wait by an alarm: they are no longer under way, and nobody
// waits in them.
#include "base/clock.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::CallState;

constexpr int32_t kNoResult = -1;

bool leave_cuda_call(Session& session, const Thread& thread, uint64_t ticket, uint64_t now) {
    format::CudaCallEntry* const entry = session.cuda_calls.find(ticket);
    if (entry == nullptr || entry->thread != thread.tid || entry->entered_ticks != thread.record->entered_ticks) {
        return false;
    }
    store_field(entry->returned_ticks, now);
    return true;
}

// Nobody knows whether these calls were launched before. They count as handed to the device, and the device's marks
// show more.
void leave_collectives(Session& session, const Thread& thread, uint64_t first, uint64_t now) {
    for (uint64_t ticket = first; ticket < session.collectives.head(); ++ticket) {
        format::CollectiveEntry* const entry = session.collectives.find(ticket);
        if (entry == nullptr || entry->thread != thread.tid) {
            continue;
        }
        const CallState state = load_field(entry->state);
        if (state == CallState::kEntered || state == CallState::kLaunching) {
            store_field(entry->returned_ticks, now);
            store_field(entry->result, kNoResult);
            store_field(entry->state, entry->stream != 0 || state == CallState::kLaunching ? CallState::kEnqueued
                                                                                           : CallState::kReturned);
        }
    }
}

}  // namespace

void note_jump(uintptr_t stack_pointer) {
    Thread& thread = *this_thread();
    if (thread.inside == 0 || stack_pointer <= thread.inside || thread.session == nullptr) {
        return;
    }
    Session& session = *thread.session;
    const uint64_t now = now_ticks();
    const uint64_t ticket_plus_one = load_field(thread.record->ticket);
    if (ticket_plus_one != 0 && !leave_cuda_call(session, thread, ticket_plus_one - 1, now)) {
        leave_collectives(session, thread, ticket_plus_one - 1, now);
    }
    mark_outside(thread, now);
    go_outside(thread);
}

}  // namespace titan::tracer

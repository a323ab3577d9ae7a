// The record of what a program hands to its streams beside NCCL's calls: kernels, copies, events. hot.
#include "record_work.h"
#include "clock.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

uint64_t write_work(Thread& thread, uint16_t api, const StreamWork& work, uint8_t flags, uint64_t now) {
    Session& session = *thread.session;
    store_field(thread.record->launches, thread.record->launches + 1);
    const uint64_t ticket = session.stream_work.claim();
    format::StreamWorkEntry& entry = session.stream_work.begin(ticket);
    entry.entered_ticks = now;
    entry.stream = reinterpret_cast<uint64_t>(work.stream);
    entry.object = reinterpret_cast<uint64_t>(work.object);
    entry.amount = work.amount;
    entry.name = entry.call = session.api_names[api];
    entry.thread = thread.tid;
    entry.kind = work.kind;
    entry.flags = flags;
    session.stream_work.publish(entry, ticket);
    return ticket;
}

bool enter_work(Call& call, uint16_t api, const StreamWork& work) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    const uint64_t now = now_ticks();
    call = {thread, write_work(*thread, api, work, 0, now), nullptr, format::OpClass::none, {}};
    mark_inside(*thread, api, reinterpret_cast<uint64_t>(work.stream), 0, now);
    return true;
}

void leave_work(Call& call, int) {
    mark_outside(*call.thread, call.thread->record->entered_ticks);
    --call.thread->nested;
}

void count_query() {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread != nullptr) {
        store_field(thread->record->queries, thread->record->queries + 1);
    }
}

}  // namespace titan::tracer

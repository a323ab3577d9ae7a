// NCCL groups: calls between ncclGroupStart and the outermost ncclGroupEnd are launched by that end. hot.
#include "clock.h"
#include "nccl_result.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;

constexpr uint32_t kMaxStreams = 16;

// Applies `change(entry, ticket)` to the entries of this thread's group that wait for its end.
template <typename Change>
void for_each_grouped(Thread& thread, CallState state, Change change) {
    if (thread.group_calls == 0) {
        return;
    }
    for (uint64_t ticket = thread.group_first_ticket; ticket <= thread.group_last_ticket; ++ticket) {
        CollectiveEntry* const entry = thread.session->collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(*thread.session, format::Loss::kLateUpdates);
        } else if (entry->group == thread.group && load_field(entry->state) == state) {
            change(*entry, ticket);
        }
    }
}

struct Streams {
    uint64_t streams[kMaxStreams];
    uint32_t count;
    bool overflow;

    void add(uint64_t stream) {
        for (uint32_t i = 0; i < count; ++i) {
            if (streams[i] == stream) {
                return;
            }
        }
        if (count == kMaxStreams) {
            overflow = true;
            return;
        }
        streams[count++] = stream;
    }
    bool contains(uint64_t stream) const {
        for (uint32_t i = 0; i < count; ++i) {
            if (streams[i] == stream) {
                return true;
            }
        }
        return false;
    }
};

void set_flag(CollectiveEntry& entry, format::CollectiveFlags flag) {
    store_field(entry.flags, static_cast<uint16_t>(entry.flags | flag));
}

void add_in_flight(Session& session, const CollectiveEntry& entry, bool more) {
    if (entry.communicator == format::kNoIndex) {
        return;
    }
    std::atomic<uint32_t>& in_flight = session.communicators.at(entry.communicator).in_flight;
    more ? in_flight.fetch_add(1, std::memory_order_relaxed) : in_flight.fetch_sub(1, std::memory_order_relaxed);
}

// One observation per stream: what was launched together finishes together, as far as we can tell.
void observe_group(Thread& thread, const Streams& streams, uint64_t entered) {
    Session& session = *thread.session;
    for (uint32_t i = 0; i < streams.count; ++i) {
        const uint64_t stream = streams.streams[i];
        const Observation seen =
            session.gpu_progress.observe({thread.group_first_ticket, thread.group_last_ticket, thread.group,
                                          reinterpret_cast<const void*>(stream), entered});
        if (seen == Observation::kWatched) {
            continue;
        }
        for_each_grouped(thread, CallState::kPending, [&](CollectiveEntry& entry, uint64_t) {
            if (entry.stream == stream) {
                if (seen == Observation::kCaptured) {
                    set_flag(entry, format::kCaptured);
                }
                store_field(entry.state, CallState::kEnqueued);
                add_in_flight(session, entry, false);
            }
        });
    }
}

void launch_group(Thread& thread, int result, uint64_t entered, uint64_t now) {
    Session& session = *thread.session;
    const bool watch = result == kSuccess && session.gpu_progress.active();
    Streams streams{};
    for_each_grouped(thread, CallState::kLaunching, [&](CollectiveEntry& entry, uint64_t) {
        store_field(entry.returned_ticks, now);
        store_field(entry.result, result);
        if (is_error(result)) {
            store_field(entry.state, CallState::kFailed);
            return;
        }
        streams.add(entry.stream);
        const bool watched = watch && streams.contains(entry.stream);
        if (watched) {
            add_in_flight(session, entry, true);
        }
        store_field(entry.state, watched ? CallState::kPending : CallState::kEnqueued);
    });
    if (streams.overflow) {
        count_loss(session, format::Loss::kProgressSkipped);
    }
    if (watch) {
        observe_group(thread, streams, entered);
    }
}

}  // namespace

bool enter_group_start(Call& call) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    call = {thread, 0, nullptr, format::OpClass::none};
    return true;
}

void leave_group_start(Call& call, int result) {
    Thread& thread = *call.thread;
    --thread.nested;
    if (result != kSuccess) {
        return;
    }
    if (thread.group_depth++ == 0) {
        thread.group = std::atomic_ref(thread.session->header->groups).fetch_add(1, std::memory_order_relaxed) + 1;
        thread.group_calls = 0;
        store_field(thread.record->group, thread.group);
    }
    store_field(thread.record->group_depth, thread.group_depth);
}

bool enter_group_end(Call& call, uint16_t api, bool simulate) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    const uint64_t now = now_ticks();
    call = {thread, now, nullptr, format::OpClass::none};  // the ticket's place carries when the end was entered
    if (thread->group_depth == 1) {
        // A simulated end launches nothing: its calls are over.
        const CallState next = simulate ? CallState::kReturned : CallState::kLaunching;
        for_each_grouped(*thread, CallState::kGrouped,
                         [next](CollectiveEntry& entry, uint64_t) { store_field(entry.state, next); });
    }
    mark_inside(*thread, api, 0, thread->group_calls > 0 ? thread->group_first_ticket + 1 : 0, now);
    return true;
}

void leave_group_end(Call& call, int result) {
    Thread& thread = *call.thread;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    if (thread.group_depth > 0 && --thread.group_depth == 0) {
        if (thread.group_calls > 0) {
            launch_group(thread, result, call.ticket, now);
        }
        if (thread.pending_creates > 0) [[unlikely]] {
            settle_pending_creates(thread, result);
        }
        thread.group = 0;
        store_field(thread.record->group, uint64_t{0});
    }
    store_field(thread.record->group_depth, thread.group_depth);
    --thread.nested;
}

}  // namespace titan::tracer

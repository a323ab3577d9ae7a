// NCCL groups: calls between ncclGroupStart and the outermost ncclGroupEnd are launched by that end. hot.
#include "base/clock.h"
#include "cold_calls.h"
#include "communicators.h"
#include "record_launch.h"
#include "sequence.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;

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

// The launch of this group's calls on `stream`, begun at its first call; null when the group uses too many streams.
Launch* launch_on(Thread& thread, const void* stream) {
    for (uint32_t i = 0; i < thread.group_launches; ++i) {
        if (thread.launches[i].stream == stream) {
            return &thread.launches[i];
        }
    }
    if (thread.group_launches == kMaxGroupStreams) {
        count_loss(*thread.session, format::Loss::kProgressSkipped);
        return nullptr;
    }
    Launch& launch = thread.launches[thread.group_launches++];
    launch = Launch{};
    launch.stream = stream;
    if (thread.session->gpu_progress.active()) {
        thread.session->gpu_progress.begin(launch, stream);
    }
    return &launch;
}

bool is_captured(const CollectiveEntry& entry) { return (entry.flags & format::kCaptured) != 0; }

// One mark per stream of the group: calls that were launched together run together, as far as we can tell.
void begin_group(Thread& thread) {
    thread.group_launches = 0;
    for_each_grouped(thread, CallState::kGrouped, [&](CollectiveEntry& entry, uint64_t) {
        if (!is_captured(entry)) {
            if (const Launch* const launch = launch_on(thread, reinterpret_cast<const void*>(entry.stream))) {
                store_field(entry.launch, launch->number_plus_one);
                store_field(entry.flags, static_cast<uint16_t>(entry.flags | flags_of(*launch)));
            }
        }
        store_field(entry.state, CallState::kLaunching);
    });
}

void end_group(Thread& thread, int result, uint64_t entered, uint64_t now) {
    Session& session = *thread.session;
    const LaunchedCalls calls{thread.group_first_ticket, thread.group_last_ticket, entered};
    bool captured = false;
    for_each_grouped(thread, CallState::kLaunching, [&](CollectiveEntry& entry, uint64_t) {
        if (is_captured(entry)) {
            captured = true;
            store_field(entry.returned_ticks, now);
            store_field(entry.result, result);
            store_field(entry.state, is_error(result) ? CallState::kFailed : CallState::kCaptured);
        }
    });
    if (captured) [[unlikely]] {
        remember_captured(session, thread.group_first_ticket, thread.group_last_ticket, thread.group);
    }
    for (uint32_t i = 0; i < thread.group_launches; ++i) {
        end_launch(session, thread.launches[i], calls, CallState::kLaunching, result, now);
    }
    // Calls on streams beyond those that a group's state has room for.
    for_each_grouped(thread, CallState::kLaunching, [&](CollectiveEntry& entry, uint64_t) {
        store_field(entry.returned_ticks, now);
        store_field(entry.result, result);
        store_field(entry.state, is_error(result) ? CallState::kFailed : CallState::kEnqueued);
    });
    if (is_refused(result)) [[unlikely]] {
        for_each_grouped(thread, CallState::kFailed,
                         [&](CollectiveEntry& entry, uint64_t) { give_back_sequence(session, entry); });
    }
    thread.group_launches = 0;
}

}  // namespace

bool enter_group_start(Call& call) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    go_inside(*thread, call);
    begin_call(call, *thread, 0);
    return true;
}

void leave_group_start(Call& call, int result) {
    Thread& thread = *call.thread;
    go_outside(thread);
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
    go_inside(*thread, call);
    const uint64_t now = now_ticks();
    begin_call(call, *thread, now);  // the ticket's place carries when the end was entered
    if (thread->group_depth == 1) {
        if (simulate) {  // launches nothing: its calls are over
            for_each_grouped(*thread, CallState::kGrouped, [&](CollectiveEntry& entry, uint64_t) {
                store_field(entry.state, CallState::kReturned);
                give_back_sequence(*thread->session, entry);
            });
        } else {
            begin_group(*thread);
        }
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
            end_group(thread, result, call.ticket, now);
        }
        if (thread.pending_creates > 0) [[unlikely]] {
            settle_pending_creates(thread, result);
        }
        thread.group = 0;
        store_field(thread.record->group, uint64_t{0});
    }
    store_field(thread.record->group_depth, thread.group_depth);
    go_outside(thread);
}

}  // namespace titan::tracer

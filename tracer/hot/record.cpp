// The hot path from top to bottom: the record of a collective, a point-to-point call or a call that changes a
// communicator.
//
//   enter_call            before the real function
//     outermost_thread      the calling thread's state; none inside a recorded call (thread_state.h)
//     communicator_of       by its handle (communicators.h); a new one is learnt (cold_calls.h)
//     begin_on_device       the mark before the launch (gpu_progress.h), or the capture (cold_calls.h)
//     write_entry           claims a slot of the ring and fills it with plain stores (ring.h)
//     mark_inside           the thread's row shows others what it is inside
//   leave_call            after the real function
//     mark_outside          the thread's row
//     set_state_on_return   time, result and state of the usual call
//     end_launch            the mark behind the launch (record_launch.h)
//     leave_uncommon        groups, captures, ended communicators
//
// No lock, allocation, system call or I/O; 300 instructions for both (tests/bench/instruction_counts.py).
#include "tracer/record.h"

#include <cstddef>
#include <cstring>

#include "base/clock.h"
#include "cold_calls.h"
#include "communicators.h"
#include "record_launch.h"
#include "sequence.h"
#include "session.h"
#include "thread_state.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;
using format::OpKind;

Communicator* communicator_of(Session& session, const CallArgs& args, uint64_t now);
[[gnu::always_inline]] inline void enter_on(Call& call, Thread& thread, Session& session, Communicator* communicator,
                                            uint16_t api, const CallArgs& args, uint8_t traits, uint64_t now);
[[gnu::cold, gnu::noinline]] bool enter_without_communicator(Call& call, Thread& thread, uint16_t api,
                                                             const CallArgs& args, uint8_t traits, uint64_t now);
[[gnu::noinline]] uint32_t begin_on_device(Call& call, Session& session, const CallArgs& args, bool grouped);
[[gnu::always_inline]] inline void write_entry(Call& call, Thread& thread, Session& session, Communicator* communicator,
                                               const CallArgs& args, uint8_t traits, uint32_t capture, uint64_t now);
void fill_communicator(CollectiveEntry& entry, Session& session, Communicator& communicator, const CallArgs& args,
                       uint8_t traits, bool captured);
void fill_unknown_communicator(CollectiveEntry& entry, const CallArgs& args);
format::Reduction reduction_of(int reduction);
void fill_uncommon(const Call& call, Thread& thread, CollectiveEntry& entry, uint32_t capture);
void set_state_on_return(CollectiveEntry& entry, const Call& call, int result);
[[gnu::noinline]] void leave_uncommon(Thread& thread, CollectiveEntry& entry, Call& call, int result, uint64_t now);
[[gnu::cold, gnu::noinline]] void leave_lost(Session& session, const Call& call);

}  // namespace

bool enter_call(Call& call, uint16_t api, const CallArgs& args, uint8_t traits) {
    // Ending a communicator that nobody has recorded is no reason to start a session.
    Thread* const thread = outermost_thread((traits & kLifecycle) != 0 ? MayStart::kNever : MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    go_inside(*thread, call);
    Communicator* const communicator = communicator_of(session, args, now);
    call.thread = thread;
    call.communicator = communicator;
    call.traits = traits;
    if (communicator == nullptr) [[unlikely]] {
        return enter_without_communicator(call, *thread, api, args, traits, now);
    }
    if (communicator->incomplete.load(std::memory_order_relaxed)) [[unlikely]] {
        if (!ends_communicator(args.kind)) {
            complete_communicator(*communicator);
        }
    }
    enter_on(call, *thread, session, communicator, api, args, traits, now);
    if ((traits & kLifecycle) != 0) [[unlikely]] {
        note_lifecycle_entered(session, *communicator, args.kind, now);
    }
    return true;
}

namespace {

Communicator* communicator_of(Session& session, const CallArgs& args, uint64_t now) {
    if (args.comm == nullptr) {
        return nullptr;
    }
    Communicator* const communicator = session.communicators.find(args.comm);
    return communicator != nullptr ? communicator : learn_communicator(session, args.comm, args.kind, now);
}

// Inlined twice, so that calls on a communicator (nearly all) do not ask again and again whether they have one.
[[gnu::always_inline]] inline void enter_on(Call& call, Thread& thread, Session& session, Communicator* communicator,
                                            uint16_t api, const CallArgs& args, uint8_t traits, uint64_t now) {
    uint32_t capture = kNotCaptured;
    if ((traits & kOnDevice) != 0 && session.watches_streams()) {
        capture = begin_on_device(call, session, args, thread.group_depth > 0);
    }
    write_entry(call, thread, session, communicator, args, traits, capture, now);
    mark_inside(thread, api, communicator != nullptr ? communicator->record->id : 0, call.ticket + 1, now);
}

[[gnu::cold, gnu::noinline]] bool enter_without_communicator(Call& call, Thread& thread, uint16_t api,
                                                             const CallArgs& args, uint8_t traits, uint64_t now) {
    enter_on(call, thread, *thread.session, nullptr, api, args, traits, now);
    return true;
}

// Puts the mark before the launch if the device is observed, or returns the number of the capture if there is one.
[[gnu::noinline]] uint32_t begin_on_device(Call& call, Session& session, const CallArgs& args, bool grouped) {
    const uint32_t capture = args.observe ? ask_capture(session, args.stream) : kNotCaptured;
    if (capture != kNotCaptured) {
        call.traits |= kCapturedCall;
    } else if (args.observe && !grouped && session.gpu_progress.active()) {
        session.gpu_progress.begin(call.launch, args.stream);
        call.traits = static_cast<uint8_t>(call.traits | (call.launch.number_plus_one != 0 ? kObserved : 0));
    }
    return capture;
}

// Claims the entry and fills it in. One pass of plain stores: this is the cost of a record.
[[gnu::always_inline]] inline void write_entry(Call& call, Thread& thread, Session& session, Communicator* communicator,
                                               const CallArgs& args, uint8_t traits, uint32_t capture, uint64_t now) {
    const uint32_t stack = session.call_sites.on() ? session.call_sites.capture(thread.stack) : 0;
    const uint64_t ticket = session.collectives.claim();
    CollectiveEntry& entry = session.collectives.begin(ticket);
    call.ticket = ticket;
    call.entry = &entry;
    if (communicator != nullptr) {
        fill_communicator(entry, session, *communicator, args, traits, capture != kNotCaptured);
    } else {
        fill_unknown_communicator(entry, args);
    }
    entry.count = args.count;
    entry.send_buffer = reinterpret_cast<uint64_t>(args.send);
    entry.receive_buffer = reinterpret_cast<uint64_t>(args.receive);
    entry.stream = reinterpret_cast<uint64_t>(args.stream);
    entry.group = thread.group;
    entry.step = load_field(session.header->step);
    entry.entered_ticks = now;
    entry.returned_ticks = entry.gpu_started_ticks = entry.gpu_finished_ticks = 0;
    entry.related_id = 0;
    entry.thread = thread.tid;
    entry.span = thread.span;
    entry.stack = stack;
    entry.peer = args.peer;
    entry.group_index = 0;
    entry.kind = args.kind;
    entry.datatype = static_cast<format::Datatype>(args.datatype);
    entry.reduction = reduction_of(args.reduction);
    entry.state = CallState::kEntered;
    entry.result = -1;
    entry.color = 0;
    memset(&entry.launch, 0,
           sizeof(entry) - offsetof(CollectiveEntry, launch));  // clears the rest: nothing is known yet
    if (((call.traits & (kObserved | kCapturedCall)) | thread.group_depth) != 0) {
        if ((call.traits & kObserved) != 0) {
            entry.launch = call.launch.number_plus_one;
            entry.flags = static_cast<uint16_t>(entry.flags | flags_of(call.launch));
        } else {
            fill_uncommon(call, thread, entry, capture);
        }
    }
    session.collectives.publish(entry, ticket);
}

// Fills in the communicator. A captured call takes no number: it does not run now.
void fill_communicator(CollectiveEntry& entry, Session& session, Communicator& communicator, const CallArgs& args,
                       uint8_t traits, bool captured) {
    const format::CommunicatorRecord& record = *communicator.record;
    entry.flags = static_cast<uint16_t>(args.flags | communicator.call_flags);
    entry.communicator_id = record.id;
    entry.sequence =
        captured ? format::kNoSequence : take_sequence(session, communicator, args.kind, traits, args.peer);
    entry.communicator = communicator.index;
    entry.comm_rank = record.rank;
    entry.device = record.device;
}

void fill_unknown_communicator(CollectiveEntry& entry, const CallArgs& args) {
    entry.flags = args.flags;
    entry.communicator_id = 0;
    entry.sequence = format::kNoSequence;
    entry.communicator = format::kNoIndex;
    entry.comm_rank = entry.device = -1;
}

constexpr unsigned kFirstUserReduction = 5;  // ncclNumOps: from here on handles are private to a rank

format::Reduction reduction_of(int reduction) {
    if (static_cast<unsigned>(reduction) < kFirstUserReduction) [[likely]] {
        return static_cast<format::Reduction>(reduction);
    }
    return reduction == 255 ? format::Reduction::kNoReduction : format::Reduction::kPremulSum;
}

void join_group(Thread& thread, CollectiveEntry& entry, uint64_t ticket) {
    entry.flags = static_cast<uint16_t>(entry.flags | format::kInGroup);
    entry.group_index = thread.group_calls++;
    if (entry.group_index == 0) {
        thread.group_first_ticket = ticket;
    }
    thread.group_last_ticket = ticket;
}

void fill_uncommon(const Call& call, Thread& thread, CollectiveEntry& entry, uint32_t capture) {
    if ((call.traits & kCapturedCall) != 0) {
        entry.flags = static_cast<uint16_t>(entry.flags | format::kCaptured);
        entry.graph = capture != kUnknownCapture ? capture : 0;
    }
    if (thread.group_depth > 0) {
        join_group(thread, entry, call.ticket);
    }
}

}  // namespace

void leave_call(Call& call, int result) {
    Thread& thread = *call.thread;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    CollectiveEntry& entry = *call.entry;
    if (!thread.session->collectives.holds(entry, call.ticket)) [[unlikely]] {
        leave_lost(*thread.session, call);
    } else if (((call.traits & (kLifecycle | kObserved | kCapturedCall)) | thread.group_depth) == 0) {
        store_field(entry.returned_ticks, now);
        store_field(entry.result, result);
        set_state_on_return(entry, call, result);
    } else if ((call.traits & kObserved) != 0) {  // so it is on the device, neither captured nor in a group
        end_launch(*thread.session, call.launch, entry, call.ticket, result, now);
    } else {
        leave_uncommon(thread, entry, call, result, now);
    }
    if (is_refused(result) && thread.session->collectives.holds(entry, call.ticket)) [[unlikely]] {
        give_back_sequence(*thread.session, entry);
    }
    go_outside(thread);
}

namespace {

void set_state_on_return(CollectiveEntry& entry, const Call& call, int result) {
    store_field(entry.state, is_error(result)                 ? CallState::kFailed
                             : (call.traits & kOnDevice) != 0 ? CallState::kEnqueued
                                                              : CallState::kReturned);
}

// Returns from calls in a group, captured, or about the communicator's own life.
[[gnu::noinline]] void leave_uncommon(Thread& thread, CollectiveEntry& entry, Call& call, int result, uint64_t now) {
    Session& session = *thread.session;
    if ((call.traits & kLifecycle) != 0 && call.communicator != nullptr) {
        note_lifecycle_left(*call.communicator, entry.kind, result);
    }
    if (thread.group_depth > 0 && result == kSuccess && (call.traits & kOnDevice) != 0) {
        store_field(entry.state, CallState::kGrouped);
    } else {
        store_field(entry.returned_ticks, now);
        store_field(entry.result, result);
        if ((entry.flags & format::kCaptured) == 0) {
            set_state_on_return(entry, call, result);
        } else if (is_error(result)) {
            store_field(entry.state, CallState::kFailed);
        } else {
            store_field(entry.state, CallState::kCaptured);
            remember_captured(session, call.ticket, call.ticket, entry.group);
        }
    }
}

// The entry was overwritten meanwhile: there is nothing to watch any more, and the mark before the launch is free
// again.
[[gnu::cold, gnu::noinline]] void leave_lost(Session& session, const Call& call) {
    count_loss(session, format::Loss::kLateUpdates);
    if ((call.traits & kObserved) != 0) {
        session.gpu_progress.cancel(call.launch);
    }
}

}  // namespace

}  // namespace titan::tracer

// The record of a collective, a point-to-point call or a call that changes a communicator: enter and leave. hot.
#include "tracer/record.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "clock.h"
#include "nccl_result.h"
#include "record_launch.h"
#include "sequence.h"
#include "session.h"
#include "thread_state.h"
#include "watch.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;
using format::OpClass;
using format::OpKind;

constexpr int kFirstUserReduction = 5;  // ncclNumOps: from here on handles are private to a rank
constexpr uint64_t kAbortSnapshotWait_ns = 1'000'000'000;

constexpr bool runs_on_device(OpClass op_class, OpKind kind) {
    return is_counted(op_class) || op_class == OpClass::p2p || kind == OpKind::kWaitSignal;
}

constexpr bool ends_communicator(OpKind kind) { return kind == OpKind::kCommDestroy || kind == OpKind::kCommAbort; }

// Cold: the first call on a handle that enter_create did not learn (a group, a non-blocking split, or out of our sight).
[[gnu::cold, gnu::noinline]] Communicator* learn_communicator(Session& session, const void* handle, uint64_t now) {
    const ColdLock lock;
    Communicator* communicator = session.communicators.find(handle);
    if (communicator != nullptr) {
        return communicator;
    }
    communicator = session.communicators.find_created(handle);
    if (communicator == nullptr) {
        count_loss(session, format::Loss::kUnknownCommunicators);
        communicator = session.communicators.add(session, CreateArgs{.kind = OpKind::kCommInit},
                                                 reinterpret_cast<uint64_t>(handle), now);
    }
    if (communicator != nullptr) {
        session.communicators.bind(*communicator, handle);
        store_field(communicator->record->ready_ticks, now);
        store_field(communicator->record->state, format::CommState::kLive);
    }
    return communicator;
}

Communicator* communicator_of(Session& session, const void* handle, uint64_t now) {
    if (handle == nullptr) {
        return nullptr;
    }
    Communicator* const communicator = session.communicators.find(handle);
    return communicator != nullptr ? communicator : learn_communicator(session, handle, now);
}

void fill_communicator(CollectiveEntry& entry, Session& session, Communicator* communicator, const CallArgs& args,
                       OpClass op_class, uint32_t capture) {
    unsigned call_flags = args.config_call ? format::kConfigCall : 0;
    if (capture != kNotCaptured) [[unlikely]] {
        call_flags |= format::kCaptured;
    }
    if (communicator == nullptr) [[unlikely]] {
        entry.flags = static_cast<uint16_t>(call_flags);
        entry.communicator_id = 0;
        entry.sequence = format::kNoSequence;
        entry.communicator = format::kNoIndex;
        entry.comm_rank = entry.device = -1;
        return;
    }
    const format::CommunicatorRecord& record = *communicator->record;
    entry.flags = static_cast<uint16_t>(call_flags | communicator->call_flags);
    entry.communicator_id = record.id;
    entry.sequence = capture != kNotCaptured ? format::kNoSequence  // it does not run now
                                             : take_sequence(session, *communicator, args.kind, op_class, args.peer);
    entry.communicator = communicator->index;
    entry.comm_rank = record.rank;
    entry.device = record.device;
}

format::Reduction reduction_of(int reduction) {
    if (reduction == 255) {
        return format::Reduction::kNoReduction;
    }
    return reduction >= kFirstUserReduction ? format::Reduction::kPremulSum : static_cast<format::Reduction>(reduction);
}

void join_group(Thread& thread, CollectiveEntry& entry, uint64_t ticket) {
    entry.flags = static_cast<uint16_t>(entry.flags | format::kInGroup);
    entry.group_index = thread.group_calls++;
    if (entry.group_index == 0) {
        thread.group_first_ticket = ticket;
    }
    thread.group_last_ticket = ticket;
}

// Claims the entry and fills it in. One pass of plain stores: this is the cost of a record.
uint64_t write_entry(const Call& call, const CallArgs& args, uint32_t capture, uint64_t now) {
    Thread& thread = *call.thread;
    Session& session = *thread.session;
    const uint64_t ticket = session.collectives.claim();
    CollectiveEntry& entry = session.collectives.begin(ticket);
    fill_communicator(entry, session, call.communicator, args, call.op_class, capture);
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
    entry.stack = 0;
    entry.peer = args.peer;
    entry.group_index = 0;
    entry.kind = args.kind;
    entry.datatype = static_cast<format::Datatype>(args.datatype);
    entry.reduction = reduction_of(args.reduction);
    entry.state = CallState::kEntered;
    entry.result = -1;
    entry.color = 0;
    entry.launch = call.launch.number_plus_one;
    memset(&entry.replay, 0,
           sizeof(entry) - offsetof(CollectiveEntry, replay));  // to the end: nothing of it is known yet
    if (capture != kNotCaptured && capture != kUnknownCapture) [[unlikely]] {
        entry.graph = capture;
    }
    if (thread.group_depth > 0) {
        join_group(thread, entry, ticket);
    }
    session.collectives.publish(entry, ticket);
    return ticket;
}

// The communicator's own story, told by the calls that change it. Before the real call: after a destroy NCCL may hand the
// same address out again at once.
[[gnu::cold, gnu::noinline]] void note_lifecycle_entered(Session& session, Communicator& communicator, OpKind kind,
                                                         uint64_t now) {
    if (!ends_communicator(kind)) {
        return;
    }
    const bool in_flight = communicator.in_flight.load(std::memory_order_relaxed) > 0;
    if (kind == OpKind::kCommAbort && in_flight) {
        char detail[96];
        snprintf(detail, sizeof detail, "ncclCommAbort with unfinished calls on communicator %016llx",
                 static_cast<unsigned long long>(communicator.record->id));
        request_dump(format::DumpReason::kAbort, detail);
        wait_for_snapshot(kAbortSnapshotWait_ns);  // the abort itself will change what we want to show
    }
    const ColdLock lock;
    session.communicators.forget(communicator);
    store_field(communicator.record->closed_ticks, now);
}

[[gnu::cold, gnu::noinline]] void note_lifecycle_left(Communicator& communicator, OpKind kind, int result) {
    if (is_error(result)) {
        return;
    }
    format::CommState state;
    switch (kind) {
        case OpKind::kCommFinalize: state = format::CommState::kFinalized; break;
        case OpKind::kCommDestroy: state = format::CommState::kDestroyed; break;
        case OpKind::kCommAbort: state = format::CommState::kAborted; break;
        default: return;
    }
    store_field(communicator.record->state, state);
}

// A call outside groups has returned.
void leave_ungrouped(Session& session, CollectiveEntry& entry, const Call& call, int result, uint64_t now) {
    if (call.launch.number_plus_one != 0) {
        end_launch(session, call.launch, {call.ticket, call.ticket, entry.entered_ticks}, CallState::kEntered, result,
                   now);
        return;
    }
    store_field(entry.returned_ticks, now);
    store_field(entry.result, result);
    const bool captured = (entry.flags & format::kCaptured) != 0;
    store_field(entry.state, is_error(result)                            ? CallState::kFailed
                             : captured                                  ? CallState::kCaptured
                             : runs_on_device(call.op_class, entry.kind) ? CallState::kEnqueued
                                                                         : CallState::kReturned);
    if (captured && !is_error(result)) [[unlikely]] {
        const ColdLock lock;
        session.graphs.remember(session, entry);
    }
}

}  // namespace

bool enter_call(Call& call, uint16_t api, const CallArgs& args, OpClass op_class) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    ++thread->nested;
    Communicator* const communicator = communicator_of(session, args.comm, now);
    if (communicator != nullptr && communicator->incomplete.load(std::memory_order_relaxed)) [[unlikely]] {
        complete_communicator(session, *communicator);
    }
    call.thread = thread;
    call.communicator = communicator;
    call.op_class = op_class;
    call.launch.number_plus_one = 0;  // the rest of it has a meaning only where that is set
    uint32_t capture = kNotCaptured;
    if (args.observe && runs_on_device(op_class, args.kind)) {
        capture = capture_of(session, args.stream);
        if (capture == kNotCaptured && thread->group_depth == 0 && session.gpu_progress.active()) {
            session.gpu_progress.begin(call.launch, args.stream);
        }
    }
    call.ticket = write_entry(call, args, capture, now);
    mark_inside(*thread, api, communicator != nullptr ? communicator->record->id : 0, call.ticket + 1, now);
    if (communicator != nullptr && op_class == OpClass::lifecycle) [[unlikely]] {
        note_lifecycle_entered(session, *communicator, args.kind, now);
    }
    return true;
}

void leave_call(Call& call, int result) {
    Thread& thread = *call.thread;
    Session& session = *thread.session;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    CollectiveEntry* const entry = session.collectives.find(call.ticket);
    if (entry == nullptr) {
        count_loss(session, format::Loss::kLateUpdates);
    } else if (thread.group_depth > 0 && result == kSuccess && runs_on_device(call.op_class, entry->kind)) {
        store_field(entry->state, CallState::kGrouped);
    } else {
        leave_ungrouped(session, *entry, call, result, now);
    }
    if (call.op_class == OpClass::lifecycle && call.communicator != nullptr && entry != nullptr) [[unlikely]] {
        note_lifecycle_left(*call.communicator, entry->kind, result);
    }
    --thread.nested;
}

namespace {

bool enter_mark_of(Thread* thread, Call& call, uint16_t api, const void* object) {
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
    call = {thread, 0, nullptr, OpClass::none, {}};
    mark_inside(*thread, api, reinterpret_cast<uint64_t>(object), 0, now_ticks());
    return true;
}

}  // namespace

bool enter_mark(Call& call, uint16_t api, const void* object) {
    return enter_mark_of(outermost_thread(MayStart::kAlways), call, api, object);
}

bool enter_cuda_mark(Call& call, uint16_t api, const void* object) {
    return enter_mark_of(outermost_thread(MayStart::kNever), call, api, object);
}

void leave_mark(Call& call) {
    mark_outside(*call.thread, now_ticks());
    --call.thread->nested;
}

bool enter_cuda(Call& call, uint16_t api, const void* object) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    ++thread->nested;
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
    call = {thread, ticket, nullptr, OpClass::none, {}};
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
    --thread.nested;
}

}  // namespace titan::tracer

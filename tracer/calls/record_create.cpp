// Records calls that make communicators: the members that are waited for while a communicator comes to life. cold.
#include "cold_calls.h"

#include <stdlib.h>

#include <cstddef>
#include <cstring>

#include "base/clock.h"
#include "bindings.h"
#include "cold_lock.h"
#include "communicators.h"
#include "dumper.h"
#include "gpu_contexts.h"
#include "tracer/record.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CommState;

// The entry of a creation: it belongs to the parent where there is one, and names the child.
uint64_t write_entry(Thread& thread, const CreateArgs& args, Communicator* child, uint64_t now) {
    Session& session = *thread.session;
    Communicator* const parent = args.parent != nullptr ? session.communicators.find(args.parent) : nullptr;
    Communicator* const owner = parent != nullptr ? parent : child;
    const uint32_t stack = session.call_sites.on() ? session.call_sites.capture(thread.stack) : 0;
    const uint64_t ticket = session.collectives.claim();
    format::CollectiveEntry& entry = session.collectives.begin(ticket);
    // All but slot_sequence, which readers see.
    memset(&entry.communicator_id, 0, sizeof(entry) - offsetof(format::CollectiveEntry, communicator_id));
    entry.communicator = owner != nullptr ? owner->index : format::kNoIndex;
    entry.communicator_id = owner != nullptr ? owner->record->id : 0;
    entry.sequence = owner != nullptr ? load_field(owner->record->next_sequence) : format::kNoSequence;
    entry.related_id = child != nullptr ? child->record->id : 0;
    entry.count = args.size > 0 ? static_cast<uint64_t>(args.size) : 0;
    entry.group = thread.group;
    entry.flags = thread.group_depth > 0 ? format::kInGroup : 0;
    entry.step = load_field(session.header->step);
    entry.entered_ticks = now;
    entry.thread = thread.tid;
    entry.span = thread.span;
    entry.stack = stack;
    entry.peer = -1;
    entry.comm_rank = owner != nullptr ? owner->record->rank : args.rank;
    entry.device = owner != nullptr ? owner->record->device : -1;
    entry.kind = args.kind;
    entry.datatype = format::Datatype::kNoDatatype;
    entry.reduction = format::Reduction::kNoReduction;
    entry.state = CallState::kEntered;
    entry.result = -1;
    entry.color = args.color;
    session.collectives.publish(entry, ticket);
    return ticket;
}

void finish_entry(Session& session, uint64_t ticket, int result, uint64_t now) {
    format::CollectiveEntry* const entry = session.collectives.find(ticket);
    if (entry == nullptr) {
        return;
    }
    store_field(entry->returned_ticks, now);
    store_field(entry->result, result);
    store_field(entry->state, is_error(result) ? CallState::kFailed : CallState::kReturned);
}

// A process started without a rank in its environment is known by its rank in the first communicator it joins.
void adopt_rank(Session& session, const format::CommunicatorRecord& record) {
    const bool no_launcher = session.header->rank < 0 && session.header->world_size < 0;
    if (no_launcher && record.rank >= 0 && record.origin == format::OpKind::kCommInit) {
        store_field(session.header->rank, record.rank);
        store_field(session.header->world_size, record.size);
        session.identity.rank = record.rank;
        session.identity.world_size = record.size;
    }
}

void fail_creation(Communicator& communicator, int result, uint64_t now) {
    communicator.pending_result = nullptr;
    store_field(communicator.record->create_result, result);
    store_field(communicator.record->closed_ticks, now);
    store_field(communicator.record->state, CommState::kFailed);
}

// `handle` is what NCCL stored, null while it has not.
void settle_creation(Session& session, Communicator& communicator, const void* handle, int result, uint64_t now) {
    if (is_error(result)) {
        fail_creation(communicator, result, now);
        return;
    }
    store_field(communicator.record->create_result, result);
    if (handle == nullptr) {
        // A split without a colour: this rank took part and is no member.
        if (result == kSuccess) {
            communicator.pending_result = nullptr;
            store_field(communicator.record->closed_ticks, now);
            store_field(communicator.record->state, CommState::kDestroyed);
        }
        return;
    }
    if (const ColdLock lock; lock) {
        session.communicators.bind(communicator, handle);
    }
    if (result == kSuccess) {
        complete_communicator(communicator);
        store_field(communicator.record->ready_ticks, now);
        store_field(communicator.record->state, CommState::kLive);
    }
    on_member_ready(session, communicator);
}

}  // namespace

void on_member_ready(Session& session, Communicator& communicator) {
    adopt_rank(session, *communicator.record);
    learn_driver(session);
    if (session.gpu_progress.start(session, session.communicators)) {
        // Handlers run last in, first out: ours comes before that of the CUDA that is already loaded.
        atexit([] {
            if (Session* const current = tracer::session(); current != nullptr) {
                current->gpu_progress.stop();
            }
        });
    }
    if (session.health.note_device(session, load_field(communicator.record->device))) {
        atexit([] {
            if (Session* const current = tracer::session(); current != nullptr) {
                current->health.stop();
            }
        });
    }
    if (load_field(session.header->nccl_version) == 0) {
        store_field(session.header->nccl_version, static_cast<uint32_t>(find_nccl_version()));
    }
    note_environment();
}

void settle_pending_creates(Thread& thread, int result) {
    const uint64_t now = now_ticks();
    for (uint32_t i = 0; i < thread.pending_creates; ++i) {
        const PendingCreate& pending = thread.creates[i];
        settle_creation(*thread.session, *pending.communicator, *pending.result, result, now);
    }
    thread.pending_creates = 0;
}

bool enter_create(Call& call, uint16_t api, const CreateArgs& args) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    Session& session = *thread->session;
    const uint64_t now = now_ticks();
    go_inside(*thread, call);
    Communicator* communicator = nullptr;
    if (const ColdLock lock; lock) {
        communicator = session.communicators.add(session, args, now, now);
    }
    if (communicator == nullptr) {
        count_loss(session, format::Loss::kCommunicatorsUntracked);
    }
    begin_call(call, *thread, write_entry(*thread, args, communicator, now));
    call.communicator = communicator;
    call.traits = kLifecycle;
    mark_inside(*thread, api, communicator != nullptr ? communicator->record->id : 0, call.ticket + 1, now);
    return true;
}

void leave_create(Call& call, void** handle, int result) {
    Thread& thread = *call.thread;
    Session& session = *thread.session;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    finish_entry(session, call.ticket, result, now);
    if (call.communicator != nullptr) {
        Communicator& communicator = *call.communicator;
        const bool grouped = thread.group_depth > 0 && !is_error(result);
        if (grouped && thread.pending_creates < kMaxPendingCreates) {
            // The handle is handed out, or only usable, when the group ends.
            communicator.pending_result = handle;
            thread.creates[thread.pending_creates++] = {&communicator, handle};
        } else {
            if (result == kInProgress || grouped) {
                communicator.pending_result = handle;
            }
            settle_creation(session, communicator, is_error(result) ? nullptr : *handle, result, now);
        }
    }
    go_outside(thread);
}

bool enter_create_all(Call& call, uint16_t api, int count, const int* devices, const CommQueries* queries) {
    Thread* const thread = outermost_thread(MayStart::kAlways);
    if (thread == nullptr) {
        return false;
    }
    Session& session = *thread->session;
    const uint64_t now = now_ticks();
    go_inside(*thread, call);
    CreateArgs args{.kind = format::OpKind::kCommInitAll, .size = count, .queries = queries};
    Communicator* first = nullptr;
    for (int rank = 0; rank < count; ++rank) {
        args.rank = rank;
        const ColdLock lock;
        // One salt for all members: they share one identity.
        Communicator* const communicator = lock ? session.communicators.add(session, args, now, now) : nullptr;
        if (communicator == nullptr) {
            count_loss(session, format::Loss::kCommunicatorsUntracked);
            continue;
        }
        communicator->record->device = devices != nullptr ? devices[rank] : rank;
        first = first != nullptr ? first : communicator;
    }
    args.rank = -1;
    begin_call(call, *thread, write_entry(*thread, args, first, now));
    call.communicator = first;
    call.traits = kLifecycle;
    mark_inside(*thread, api, first != nullptr ? first->record->id : 0, call.ticket + 1, now);
    return true;
}

void leave_create_all(Call& call, void** comms, int count, int result) {
    Thread& thread = *call.thread;
    Session& session = *thread.session;
    const uint64_t now = now_ticks();
    mark_outside(thread, now);
    finish_entry(session, call.ticket, result, now);
    if (call.communicator != nullptr) {
        const uint64_t id = call.communicator->record->id;
        for (uint32_t i = 0; i < Communicators::kMaxRows; ++i) {
            Communicator& member = session.communicators.at(i);
            if (member.record == nullptr || member.record->id != id || member.record->rank >= count) {
                continue;
            }
            settle_creation(session, member, is_error(result) ? nullptr : comms[member.record->rank], result, now);
        }
    }
    go_outside(thread);
}

namespace {

// NCCL hands out the handle of a non-blocking child late, and the program may ask about it before it calls anything
// on it.
Communicator* asked_about(Session& session, const void* comm) {
    Communicator* const known = session.communicators.find(comm);
    if (known != nullptr || comm == nullptr) {
        return known;
    }
    Communicator* const created = session.communicators.find_created(comm);
    const ColdLock lock;
    if (created == nullptr || !lock) {
        return nullptr;
    }
    if (created->pending_result.load() != nullptr) {
        session.communicators.bind(*created, comm);
    }
    return session.communicators.find(comm);
}

}  // namespace

void note_async_error(const void* comm, int call_result, int async_error) {
    Session* const current = session();
    Communicator* const communicator =
        current != nullptr && call_result == kSuccess ? asked_about(*current, comm) : nullptr;
    if (communicator == nullptr) {
        return;
    }
    if (is_error(async_error)) {
        store_field(communicator->record->async_error, async_error);
        return;
    }
    if (load_field(communicator->record->state) != CommState::kCreating) {
        return;
    }
    AwaitedCreation& awaited = current->communicators.awaited;
    if (async_error == kInProgress) {
        awaited.created_ticks.store(communicator->record->created_ticks, std::memory_order_relaxed);
        awaited.communicator_id.store(communicator->record->id, std::memory_order_relaxed);
        awaited.asked_ticks.store(now_ticks(), std::memory_order_relaxed);
        return;
    }
    awaited.asked_ticks.store(0, std::memory_order_relaxed);
    // A non-blocking creation is over. Not before now does NCCL tell the device.
    if (Thread* const thread = outermost_thread(MayStart::kNever); thread != nullptr) {
        go_inside_here(*thread);
        complete_communicator(*communicator);
        go_outside(*thread);
    }
    store_field(communicator->record->create_result, kSuccess);
    store_field(communicator->record->ready_ticks, now_ticks());
    store_field(communicator->record->state, CommState::kLive);
}

void note_grow_id(const void* comm, const void* unique_id) {
    Session* const current = session();
    Communicator* const parent = current != nullptr ? current->communicators.find(comm) : nullptr;
    if (parent == nullptr) {
        return;
    }
    if (const ColdLock lock; lock) {
        note_grow_alias(*parent, unique_id);
    }
}

}  // namespace titan::tracer

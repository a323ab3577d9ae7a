// Calls as NCCL's profiler plugin interface tells them: first as the program made them (on its thread), then as NCCL
// handed them to the device. A call that a wrapper has recorded is found again; any other becomes an entry here.
#include "base/clock.h"
#include "communicators.h"
#include "plugin_contexts.h"
#include "sequence.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;
using format::OpKind;

constexpr uint64_t kSearchEntries = 512;
constexpr int kGroupDepthOfOneCall = 1;

// Open calls of the calling thread that no wrapper sees.
struct OpenCalls {
    Thread* thread;  // the one that `call` and `end` belong to
    uint64_t groups;
    bool in_group;     // the interface's group is open
    bool is_explicit;  // the program's own ncclGroupStart, not that of a single call
    bool ending;
    bool call_open;
    bool captured;
    uint16_t group_end_api;
    Call call;
    Call end;
};
constinit __attribute__((tls_model("initial-exec"))) thread_local OpenCalls open_calls{};

// Did NCCL hand all calls of this group to the device, or record them into a graph, before its end returned?
bool all_launched(Thread& thread, const OpenCalls& open) {
    if (open.captured) {
        return true;
    }
    Session& session = *thread.session;
    const uint64_t first = open.is_explicit ? thread.group_first_ticket : open.call.ticket;
    const uint64_t last = open.is_explicit ? thread.group_last_ticket : open.call.ticket;
    for (uint64_t ticket = first; ticket <= last; ++ticket) {
        CollectiveEntry* const entry = session.collectives.find(ticket);
        if (entry != nullptr && entry->group == thread.group && entry->thread == thread.tid &&
            load_field(entry->plugin_launches) == 0) {
            return false;
        }
    }
    return true;
}

// The end of what this thread has open. NCCL does not say how its call ended: one that was launched has succeeded, of
// any other we do not know.
void close_calls(OpenCalls& open) {
    Thread* const thread = open.thread;
    if (thread == nullptr || thread != this_thread() || thread->session == nullptr) {
        open = {};  // a forked child, or a thread whose state was given back
        return;
    }
    if (open.call_open) {
        leave_call(open.call, all_launched(*thread, open) ? kSuccess : kInProgress);
    } else if (open.in_group && open.is_explicit) {
        if (!open.ending) {
            open.ending = enter_group_end(open.end, open.group_end_api, false);
        }
        if (open.ending) {
            const bool launched = thread->group_calls == 0 || all_launched(*thread, open);
            leave_group_end(open.end, launched ? kSuccess : kInProgress);
        }
    }
    const uint64_t groups = open.groups;
    open = {};
    open.groups = groups;
}

// The entry that a wrapper is just making on this thread, for a communicator that may be this one.
CollectiveEntry* entry_in_front(Thread& thread, PluginContext& context, uint64_t& ticket) {
    const uint64_t ticket_plus_one = thread.record->ticket;
    Session& session = *thread.session;
    CollectiveEntry* const entry = ticket_plus_one != 0 ? session.collectives.find(ticket_plus_one - 1) : nullptr;
    if (entry == nullptr || entry->communicator == format::kNoIndex || entry->related_id != 0) {
        return nullptr;
    }
    Communicator& communicator = session.communicators.at(entry->communicator);
    if (context.communicator.load(std::memory_order_acquire) == nullptr && may_be(context, *communicator.record)) {
        join_context(session, context, communicator);
    }
    ticket = ticket_plus_one - 1;
    return context.communicator.load(std::memory_order_acquire) == &communicator ? entry : nullptr;
}

// NCCL turns the elements of these into bytes before it tells of the launch.
bool counted_in_bytes(OpKind kind) { return kind == OpKind::kAllGather || kind == OpKind::kBroadcast; }

bool same_call(const CollectiveEntry& entry, const PluginCall& call) {
    if (entry.kind != call.kind || (!counted_in_bytes(call.kind) && entry.count != call.count)) {
        return false;
    }
    const auto send = reinterpret_cast<uint64_t>(call.send);
    const auto receive = reinterpret_cast<uint64_t>(call.receive);
    if (format::class_of(call.kind) == format::OpClass::p2p) {
        return entry.peer == call.peer && (entry.send_buffer == send || entry.receive_buffer == receive);
    }
    return entry.send_buffer == send && entry.receive_buffer == receive;
}

// The oldest call in the ring that may be the one now launched and has not been reported yet: for versions that do not
// report the program's calls, and for graphs, whose launches all name the call that was captured.
CollectiveEntry* find_unreported(Session& session, PluginContext& context, const PluginCall& call, bool replayed,
                                 uint64_t& ticket) {
    const uint64_t head = session.collectives.head();
    const Communicator* const communicator = context.communicator.load(std::memory_order_acquire);
    CollectiveEntry* found = nullptr;
    for (uint64_t at = head; at > 0 && head - at < kSearchEntries; --at) {
        CollectiveEntry* const entry = session.collectives.find(at - 1);
        if (entry == nullptr || entry->communicator == format::kNoIndex || load_field(entry->plugin_launches) != 0 ||
            !same_call(*entry, call)) {
            continue;
        }
        const uint16_t flags = load_field(entry->flags);
        if ((flags & format::kReplayed) != (replayed ? format::kReplayed : 0) || (flags & format::kCaptured) != 0) {
            continue;
        }
        Communicator& owner = session.communicators.at(entry->communicator);
        const bool fits = communicator != nullptr ? communicator == &owner
                                                  : is_living(*owner.record) && may_be(context, *owner.record) &&
                                                        !is_joined(session, owner);
        if (fits) {
            found = entry;
            ticket = at - 1;
        }
    }
    if (found != nullptr && communicator == nullptr) {
        join_context(session, context, session.communicators.at(found->communicator));
    }
    return found;
}

CallArgs args_of(const PluginContext& context, const PluginCall& call, bool observe) {
    return {.kind = call.kind,
            .comm = key_of(context),
            .send = call.send,
            .receive = call.receive,
            .count = call.count,
            .datatype = call.datatype,
            .peer = call.peer,
            .stream = call.stream,
            .observe = observe};
}

CollectiveEntry* mark_from_plugin(Session& session, uint64_t ticket) {
    CollectiveEntry* const entry = session.collectives.find(ticket);
    if (entry != nullptr) {
        store_field(entry->flags, static_cast<uint16_t>(entry->flags | format::kFromPlugin));
    }
    return entry;
}

// For NCCL versions that report a call only when it is launched: they do not name the stream, so no mark is put on it.
CollectiveEntry* record_launched(Thread& thread, PluginContext& context, const PluginCall& call, uint64_t& ticket) {
    Session& session = *thread.session;
    if (own_communicator(session, context, call) == nullptr) {
        count_loss(session, format::Loss::kChannelsDropped);
        return nullptr;
    }
    Call record;
    if (!enter_call(record, call.api, args_of(context, call, false))) {
        return nullptr;
    }
    const uint64_t now = now_ticks();
    CollectiveEntry* const entry = mark_from_plugin(session, record.ticket);
    if (entry != nullptr) {
        store_field(entry->returned_ticks, now);
        store_field(entry->result, kSuccess);
        store_field(entry->state, CallState::kEnqueued);
    }
    mark_outside(thread, now);
    go_outside(thread);
    ticket = record.ticket;
    return entry;
}

// The peer of a send or receive is only told at its launch.
void learn_peer(Session& session, CollectiveEntry& entry, const PluginCall& call) {
    if (entry.kind != call.kind || load_field(entry.peer) >= 0 || call.peer < 0 ||
        format::class_of(call.kind) != format::OpClass::p2p || entry.communicator == format::kNoIndex) {
        return;
    }
    Communicator& communicator = session.communicators.at(entry.communicator);
    store_field(entry.peer, call.peer);
    store_field(entry.sequence, take_sequence(session, communicator, call.kind, traits_of(call.kind), call.peer));
}

CollectiveEntry* launched_entry(Thread& thread, PluginContext& context, const PluginCall& call, uint64_t& ticket) {
    Session& session = *thread.session;
    if (kind_of(call.parent, session) == HandleKind::kCall) {
        ticket = value_of(call.parent);
        CollectiveEntry* const entry = session.collectives.find(ticket);
        const bool captured = entry != nullptr && (load_field(entry->flags) & format::kCaptured) != 0;
        return captured ? find_unreported(session, context, call, true, ticket) : entry;
    }
    if (!context.own.load(std::memory_order_relaxed)) {
        if (CollectiveEntry* const entry = find_unreported(session, context, call, false, ticket); entry != nullptr) {
            return entry;
        }
        if (thread.inside != 0 || context.communicator.load(std::memory_order_acquire) != nullptr) {
            return nullptr;  // a wrapper has recorded it, and the ring has gone round since
        }
    }
    return record_launched(thread, context, call, ticket);
}

}  // namespace

PluginHandle plugin_group_entered(PluginHandle comm, int depth, uint16_t group_end_api) {
    close_calls(open_calls);  // NCCL may have left one out, after an error
    Thread* const thread = attached_thread(MayStart::kAlways);
    PluginContext* const context = thread != nullptr ? context_of(comm, *thread->session) : nullptr;
    if (context == nullptr || thread->inside != 0) {
        return 0;  // a wrapper sees it, and knows its group
    }
    open_calls.is_explicit = depth > kGroupDepthOfOneCall;
    if (open_calls.is_explicit && thread->group_depth == 0) {
        Call start;
        if (!enter_group_start(start)) {
            return 0;
        }
        leave_group_start(start, kSuccess);
    }
    open_calls.thread = thread;
    open_calls.in_group = true;
    open_calls.group_end_api = group_end_api;
    return make_handle(HandleKind::kGroup, *thread->session, ++open_calls.groups);
}

PluginHandle plugin_call_entered(PluginHandle comm, const PluginCall& call) {
    Thread* const thread = attached_thread(MayStart::kAlways);
    PluginContext* const context = thread != nullptr ? context_of(comm, *thread->session) : nullptr;
    if (context == nullptr) {
        return 0;
    }
    Session& session = *thread->session;
    OpenCalls& open = open_calls;
    const bool ours = open.thread == thread && open.call_open;
    if (thread->inside != 0 && !ours) {
        uint64_t ticket = 0;
        const CollectiveEntry* const entry = entry_in_front(*thread, *context, ticket);
        return entry != nullptr ? make_handle(HandleKind::kCall, session, ticket) : 0;
    }
    if (ours) {  // one of several that NCCL makes of a single call: only the last is followed on the device
        leave_call(open.call, kInProgress);
        open.call_open = false;
    }
    if (context->communicator.load(std::memory_order_acquire) == nullptr &&
        own_communicator(session, *context, call) == nullptr) {
        count_loss(session, format::Loss::kChannelsDropped);
        return 0;
    }
    if (!enter_call(open.call, call.api, args_of(*context, call, true))) {
        return 0;
    }
    open.thread = thread;
    open.captured = call.captured;
    mark_from_plugin(session, open.call.ticket);
    if (open.in_group && !open.is_explicit) {
        open.call_open = true;  // until its group ends: that launches it
    } else {
        leave_call(open.call, thread->group_depth > 0 ? kSuccess : kInProgress);
    }
    return make_handle(HandleKind::kCall, session, open.call.ticket);
}

PluginHandle plugin_call_launched(PluginHandle comm, const PluginCall& call) {
    Thread* const thread = attached_thread(MayStart::kAlways);
    PluginContext* const context = thread != nullptr ? context_of(comm, *thread->session) : nullptr;
    if (context == nullptr) {
        return 0;
    }
    uint64_t ticket = 0;
    CollectiveEntry* const entry = launched_entry(*thread, *context, call, ticket);
    if (entry == nullptr) {
        return 0;
    }
    learn_peer(*thread->session, *entry, call);
    std::atomic_ref(entry->plugin_launches).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref(entry->channels).fetch_add(call.channels, std::memory_order_relaxed);
    store_field(entry->algorithm, call.algorithm);
    store_field(entry->protocol, call.protocol);
    return make_handle(HandleKind::kLaunch, *thread->session, ticket);
}

void plugin_group_state(PluginHandle group, int state) {
    OpenCalls& open = open_calls;
    if (state == kGroupEndStarts && value_of(group) == open.groups && open.in_group && open.is_explicit &&
        !open.ending && open.thread != nullptr && open.thread == this_thread()) {
        open.ending = enter_group_end(open.end, open.group_end_api, false);
    }
}

void plugin_group_stopped(PluginHandle group) {
    if (value_of(group) == open_calls.groups && open_calls.in_group) {
        close_calls(open_calls);
    }
}

}  // namespace titan::tracer

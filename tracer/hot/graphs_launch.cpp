// A graph launch: the collectives that were captured into the graph are issued again, in the order of their capture.
// hot.
#include <string.h>

#include "base/clock.h"
#include "cold_calls.h"
#include "communicators.h"
#include "record_launch.h"
#include "sequence.h"
#include "session.h"
#include "thread_state.h"
#include "tracer/graphs.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;

constexpr int kUnhandledCudaError = 1;          // ncclResult_t
constexpr uint32_t kBecomesChild = UINT32_MAX;  // Call::replayed of a launch that is itself captured

// Bit n: operations of kind n are counted by their communicator.
constexpr uint64_t kCountedKinds = [] {
    uint64_t kinds = 0;
    for (unsigned kind = 0; kind < 64; ++kind) {
        kinds |= (traits_of(static_cast<format::OpKind>(kind)) & kCounted) != 0 ? uint64_t{1} << kind : 0;
    }
    return kinds;
}();

// The communicator of a captured call; null when it is unknown, or its row has another tenant by now.
Communicator* communicator_of(Session& session, const CapturedCall& captured) {
    if (captured.communicator >= Communicators::kMaxRows) {
        return nullptr;
    }
    Communicator& communicator = session.communicators.at(captured.communicator);
    return communicator.record->id == captured.communicator_id ? &communicator : nullptr;
}

uint64_t next_sequence(Session& session, Communicator* communicator, const CapturedCall& captured) {
    if (communicator == nullptr) [[unlikely]] {
        return format::kNoSequence;
    }
    if ((kCountedKinds >> (static_cast<unsigned>(captured.kind) % 64) & 1) != 0) [[likely]] {
        return std::atomic_ref(communicator->record->next_sequence).fetch_add(1, std::memory_order_relaxed);
    }
    return take_other_sequence(session, *communicator, captured.kind, traits_of(captured.kind), captured.peer);
}

// Values that all entries of one launch share.
struct Replay {
    uint64_t stream;
    uint64_t first_group;
    uint64_t number;
    uint64_t launch;
    uint16_t flags;
    uint64_t now;
    int64_t step;
    uint32_t thread;
    uint32_t span;
};

// This member, as its calls tell it.
struct Place {
    uint32_t communicator;
    int32_t rank;
    int32_t device;
};

Place place_in(const Communicator* communicator) {
    return communicator == nullptr
               ? Place{format::kNoIndex, -1, -1}
               : Place{communicator->index, communicator->record->rank, communicator->record->device};
}

[[gnu::always_inline]] inline void fill(CollectiveEntry& entry, const CapturedCall& captured, uint64_t sequence,
                                        const Place& place, const Replay& replay) {
    entry.communicator_id = captured.communicator_id;
    entry.sequence = sequence;
    entry.count = captured.count;
    entry.send_buffer = captured.send_buffer;
    entry.receive_buffer = captured.receive_buffer;
    entry.stream = replay.stream;
    entry.group = captured.group != 0 ? replay.first_group + captured.group : 0;
    entry.step = replay.step;
    entry.entered_ticks = replay.now;
    entry.returned_ticks = entry.gpu_started_ticks = entry.gpu_finished_ticks = 0;
    entry.related_id = 0;
    entry.communicator = place.communicator;
    entry.thread = replay.thread;
    entry.span = replay.span;
    entry.stack = captured.stack;
    entry.peer = captured.peer;
    entry.comm_rank = place.rank;
    entry.device = place.device;
    entry.group_index = captured.group_index;
    entry.kind = captured.kind;
    entry.datatype = captured.datatype;
    entry.reduction = captured.reduction;
    entry.flags = static_cast<uint16_t>(captured.flags | replay.flags);
    entry.state = CallState::kEntered;
    entry.result = -1;
    entry.color = 0;
    entry.launch = replay.launch;
    memset(&entry.replay, 0, sizeof(entry) - offsetof(CollectiveEntry, replay));  // clears the rest, as in any entry
    entry.replay = replay.number;
    entry.graph = captured.capture;
}

// Writes the entries of all calls; returns the first one's ticket. The copies of ring and launch are this function's
// own: else every store into an entry could have changed them, as far as the compiler knows.
uint64_t expand(Session& session, const CapturedCalls& list, uint32_t count, const Replay replay) {
    Ring<CollectiveEntry> ring = session.collectives;
    const uint64_t first = ring.claim_many(count);
    const CapturedCall* const calls = list.calls();
    uint32_t i = 0;
    // If a graph has more calls than the ring has slots, only the last ones get entries; the others still count.
    for (; count - i > ring.slots(); ++i) {
        next_sequence(session, communicator_of(session, calls[i]), calls[i]);
    }
    Communicator* communicator = nullptr;
    Place place = place_in(nullptr);
    const CapturedCall* known = nullptr;  // the call that `communicator` was found for: mostly the one before
    for (; i < count; ++i) {
        const CapturedCall& captured = calls[i];
        if (known == nullptr || captured.communicator != known->communicator ||
            captured.communicator_id != known->communicator_id) {
            communicator = communicator_of(session, captured);
            place = place_in(communicator);
            known = &captured;
        }
        const uint64_t sequence = next_sequence(session, communicator, captured);
        CollectiveEntry& entry = ring.begin(first + i);
        fill(entry, captured, sequence, place, replay);
        ring.publish(entry, first + i);
    }
    return first;
}

// The launch runs: its calls are issued. Before the real one.
void replay_calls(Call& call, const CapturedCalls& list, uint32_t count, const void* stream, uint64_t number,
                  uint64_t now) {
    Session& session = *call.thread->session;
    call.launch.stream = stream;
    if (session.gpu_progress.active()) {
        session.gpu_progress.begin(call.launch, stream);
    }
    const uint64_t groups =
        list.groups == 0 ? 0
                         : std::atomic_ref(session.header->groups).fetch_add(list.groups, std::memory_order_relaxed);
    call.replayed = count;
    call.ticket = expand(session, list, count,
                         {.stream = reinterpret_cast<uint64_t>(stream),
                          .first_group = groups,
                          .number = number,
                          .launch = call.launch.number_plus_one,
                          .flags = static_cast<uint16_t>(format::kReplayed | flags_of(call.launch)),
                          .now = now,
                          .step = load_field(session.header->step),
                          .thread = call.thread->tid,
                          .span = call.thread->span});
}

}  // namespace

bool enter_graph_launch(Call& call, uint16_t api, const void* exec, const void* stream) {
    Thread* const thread = outermost_thread(MayStart::kNever);
    if (thread == nullptr) {
        return false;
    }
    go_inside(*thread, call);
    const uint64_t now = now_ticks();
    Session& session = *thread->session;
    const CapturedCalls* const list = session.graphs.of_exec(exec);
    const uint32_t count = list != nullptr ? list->checked_count() : 0;
    const bool captured =
        count > 0 ? capture_of(session, stream) != kNotCaptured : session.graphs.knows_captured(stream);
    const uint64_t number = count > 0 && !captured ? session.graphs.next_replay() : 0;
    const StreamWork work{.kind = format::WorkKind::kGraphLaunch, .stream = stream, .object = exec, .amount = number};
    const uint64_t ticket = write_work(*thread, api, work, captured ? format::kWorkCaptured : 0, now);
    call.thread = thread;
    call.ticket = ticket;
    call.replayed = 0;
    call.launch.number_plus_one = 0;  // the rest of it has a meaning only where that is set
    if (captured) {
        call.replayed = list != nullptr ? kBecomesChild : 0;
    } else if (count > 0) {
        replay_calls(call, *list, count, stream, number, now);
    }
    mark_inside(*thread, api, reinterpret_cast<uint64_t>(stream), 0, now);
    return true;
}

void leave_graph_launch(Call& call, int result) {
    Thread& thread = *call.thread;
    Session& session = *thread.session;
    const uint64_t now = now_ticks();
    const uint64_t entered = thread.record->entered_ticks;
    mark_outside(thread, now);
    if (call.replayed == kBecomesChild) [[unlikely]] {
        const format::StreamWorkEntry* const work = session.stream_work.find(call.ticket);
        if (result == kCudaSuccess && work != nullptr) {
            note_launch_captured(session, reinterpret_cast<const void*>(work->object),
                                 reinterpret_cast<const void*>(work->stream));
        }
    } else if (call.replayed > 0) {
        const uint64_t slots = session.collectives.slots();
        const uint64_t last = call.ticket + call.replayed - 1;
        const uint64_t first = call.replayed > slots ? last + 1 - slots : call.ticket;
        end_launch(session, call.launch, {first, last, entered}, CallState::kEntered,
                   result == kCudaSuccess ? kSuccess : kUnhandledCudaError, now);
    }
    go_outside(thread);
}

}  // namespace titan::tracer

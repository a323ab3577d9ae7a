#include "record_launch.h"

#include "base/clock.h"
#include "communicators.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::CollectiveEntry;

template <typename Change>
void for_each_launched(Session& session, const Launch& launch, const LaunchedCalls& calls, CallState state,
                       Change change) {
    for (uint64_t ticket = calls.first_ticket; ticket <= calls.last_ticket; ++ticket) {
        CollectiveEntry* const entry = session.collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(session, format::Loss::kLateUpdates);
        } else if (load_field(entry->state) == state && load_field(entry->launch) == launch.number_plus_one &&
                   entry->stream == reinterpret_cast<uint64_t>(launch.stream)) {
            change(*entry);
        }
    }
}

// kInProgress: another thread will launch it later, so that a mark made now would come too early.
bool is_marked_behind(const Launch& launch, int result) { return result == kSuccess && launch.number_plus_one != 0; }

CallState state_after(const Launch& launch, int result) {
    return is_marked_behind(launch, result) ? CallState::kPending
           : is_error(result)               ? CallState::kFailed
                                            : CallState::kEnqueued;
}

void note_returned(CollectiveEntry& entry, CallState state, int result, uint64_t now) {
    store_field(entry.returned_ticks, now);
    store_field(entry.result, result);
    store_field(entry.state, state);
}

[[gnu::cold, gnu::noinline]] void end_unseen(Session& session, const Launch& launch, const LaunchedCalls& calls) {
    for_each_launched(session, launch, calls, CallState::kPending,
                      [&](CollectiveEntry& entry) { store_field(entry.state, CallState::kEnqueued); });
}

// Puts the mark behind it; false where the entries are pending, and nobody will tell how they end.
[[gnu::always_inline]] inline bool finish(Session& session, Launch& launch, const LaunchedCalls& calls, int result) {
    if (is_marked_behind(launch, result)) {
        return session.gpu_progress.end(launch, calls);
    }
    session.gpu_progress.cancel(launch);
    return true;
}

}  // namespace

void end_launch(Session& session, Launch& launch, CollectiveEntry& entry, uint64_t ticket, int result, uint64_t now) {
    note_returned(entry, state_after(launch, result), result, now);
    if (!finish(session, launch, {ticket, ticket, entry.entered_ticks}, result)) [[unlikely]] {
        end_unseen(session, launch, {ticket, ticket, 0});
    }
}

void end_launch(Session& session, Launch& launch, const LaunchedCalls& calls, CallState from, int result,
                uint64_t now) {
    const CallState state = state_after(launch, result);
    for_each_launched(session, launch, calls, from,
                      [&](CollectiveEntry& entry) { note_returned(entry, state, result, now); });
    if (!finish(session, launch, calls, result)) [[unlikely]] {
        end_unseen(session, launch, calls);
    }
}

}  // namespace titan::tracer

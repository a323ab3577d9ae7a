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

}  // namespace

void end_launch(Session& session, const Launch& launch, const LaunchedCalls& calls, CallState from, int result,
                uint64_t now) {
    // kInProgress: another thread will launch it later, so that a mark made now would come too early.
    const bool watch = result == kSuccess && launch.number_plus_one != 0;
    const CallState next = is_error(result) ? CallState::kFailed : watch ? CallState::kPending : CallState::kEnqueued;
    for_each_launched(session, launch, calls, from, [&](CollectiveEntry& entry) {
        store_field(entry.returned_ticks, now);
        store_field(entry.result, result);
        store_field(entry.state, next);
    });
    if (!watch) {
        session.gpu_progress.cancel(launch);
    } else if (!session.gpu_progress.end(launch, calls)) {
        for_each_launched(session, launch, calls, CallState::kPending,
                          [&](CollectiveEntry& entry) { store_field(entry.state, CallState::kEnqueued); });
    }
}

}  // namespace titan::tracer

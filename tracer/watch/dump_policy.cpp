#include "dump_policy.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "deaths.h"
#include "ending.h"
#include "log.h"
#include "signals.h"
#include "watchdog.h"

namespace titan::tracer {
namespace {

using format::DumpReason;

// Requests that come this soon after a dump are about the same event and join it. One that a person or a program makes
// on purpose is answered again sooner.
constexpr uint64_t kJoinNs = 5'000'000'000;
constexpr uint64_t kJoinOnPurposeNs = 2'000'000'000;

// A program that handles the dump signal itself may have a use of its own for it, as a wake-up: nobody asks for dumps
// so often, and for so long.
constexpr uint64_t kBetweenSignalsNs = 10'000'000'000;
constexpr uint64_t kSignalsOverNs = 60'000'000'000;
constexpr uint32_t kSignalDumps = 3;

struct DumpHistory {
    uint64_t last_ns;  // monotonic, 0 no dump yet
    bool last_for_peer;
    bool last_on_purpose;
    uint64_t last_signal_ns;  // 0 none yet
    uint32_t signal_dumps;    // since there was no signal for a minute
};
constinit DumpHistory history{};

bool within(uint64_t span_ns) { return history.last_ns != 0 && monotonic_now_ns() - history.last_ns < span_ns; }

bool is_programs_own_signal() {
    if (!program_handles_dump_signal()) {
        return false;
    }
    const uint64_t now_ns = monotonic_now_ns();
    history.signal_dumps = now_ns - history.last_signal_ns > kSignalsOverNs ? 0 : history.signal_dumps;
    history.last_signal_ns = now_ns;
    if (within(kBetweenSignalsNs) || history.signal_dumps == kSignalDumps) {
        warn_once(
            "the program handles the dump signal itself and gets it often: not every one causes a dump (see "
            "TITANTRACE_SIGNAL)");
        return true;
    }
    ++history.signal_dumps;
    return false;
}

bool within_join(const Session& session, const DumpReasonRow& row) {
    if (row.comes == Comes::kOnPurpose) {
        return within(kJoinOnPurposeNs);
    }
    return within(row.answered_by == AnsweredBy::kAnyInTimeout ? std::min(kJoinNs, session.config.timeout_ns)
                                                               : kJoinNs);
}

bool joins_last_dump(const Session& session, const DumpReasonRow& row) {
    switch (row.answered_by) {
        case AnsweredBy::kNothing: return false;
        case AnsweredBy::kOnlyOfPeer:
            return (history.last_for_peer && within_join(session, row)) || is_programs_own_signal();
        case AnsweredBy::kNotOfOwnCrash: return within_join(session, row) && !crashed_itself(session);
        case AnsweredBy::kNotOnPurpose:
            return within_join(session, row) &&
                   (!history.last_on_purpose || is_asked_to_end(*session.ring_file.header));
        default: return within_join(session, row);
    }
}

// The process was told to end, or leaves with a failure. Is that more than a job that is cancelled? Such a job ends as
// it should, on thousands of ranks at once: their rings tell that. There is more to see if it stood still before.
bool is_worth_a_dump(const Session& session) {
    return !is_asked_to_end(*session.ring_file.header) || stands_still(session) || has_anyone_died_here();
}

}  // namespace

void forget_dumps() { history = DumpHistory{}; }

void note_dump(const PendingDump& pending) {
    history.last_ns = monotonic_now_ns();
    history.last_for_peer = pending.reason == DumpReason::kPeer;
    history.last_on_purpose = row_of(pending.cause).comes == Comes::kOnPurpose;
}

Answer answer_to(const Session& session, PendingDump& pending) {
    if (joins_last_dump(session, row_of(pending.reason))) {
        return Answer::kJoin;
    }
    if (pending.reason != DumpReason::kEnd || is_worth_a_dump(session)) {
        return Answer::kDump;
    }
    pending.reason = pending.cause = DumpReason::kExit;
    const bool exited = std::atomic_ref(session.ring_file.header->state).load() == format::ProcessState::kExited;
    return exited && (session.config.dump_on & dump_bit(DumpReason::kExit)) != 0 ? Answer::kDump : Answer::kNothing;
}

bool peer_joins_last_dump(const Session& session, const JobRequest& request) {
    return within_join(session, row_of(request.reason));
}

bool tells_others(const Session& session, DumpReason reason) {
    const Tells tells = row_of(reason).tells;
    return tells == Tells::kAll || (tells == Tells::kIfNotAsked && !is_asked_to_end(*session.ring_file.header));
}

// A signal that the program handles was for the program: a request of a launcher to save and leave, say.
bool keeps_rings(DumpReason cause) { return cause != DumpReason::kSignal || !program_handles_dump_signal(); }

bool crashed_itself(const Session& session) {
    return std::atomic_ref(session.ring_file.header->state).load(std::memory_order_relaxed) ==
           format::ProcessState::kCrashed;
}

}  // namespace titan::tracer

#include "watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/futex.h"
#include "base/process.h"
#include "base/text.h"
#include "call_sites_setup.h"
#include "capture_stacks.h"
#include "clock_anchor.h"
#include "descriptor_room.h"
#include "dump_children.h"
#include "dumper.h"
#include "ending.h"
#include "exec.h"
#include "log.h"
#include "outside_request.h"
#include "own_thread.h"
#include "remote_request.h"
#include "requests.h"
#include "sampling.h"
#include "session.h"
#include "signals.h"
#include "standstill.h"
#include "turns.h"
#include "watchdog.h"

namespace titan::tracer {
namespace {

using format::DumpReason;

constexpr uint64_t kTickNs = 1'000'000'000;
constexpr uint64_t kShortestTickNs = 50'000'000;
// Requests that come this soon after a dump are about the same event and join it. One that a person or a program makes
// on purpose is answered again, except when it came round through the other ranks (a signal to the whole process
// group).
constexpr uint64_t kJoinNs = 5'000'000'000;
constexpr uint64_t kJoinOnPurposeNs = 2'000'000'000;
constexpr uint64_t kExitWaitNs = 5'000'000'000;
constexpr uint64_t kLookNs = 20'000'000;  // to bring the entries up to the device's marks; a driver may hang

// A program that handles the dump signal itself may have a use of its own for it, as a wake-up: nobody asks for dumps
// so often, and for so long.
constexpr uint64_t kBetweenSignalsNs = 10'000'000'000;
constexpr uint64_t kSignalsOverNs = 60'000'000'000;
constexpr uint32_t kSignalDumps = 3;
struct SignalHistory {
    uint64_t last_ns;  // time of the last signal, 0 none yet
    uint32_t dumps;    // since there was none for a minute
};

// A job that is cancelled ends as it should, on thousands of ranks at once: their rings tell that. More is to be seen
// where it stood still before: nothing was called, or something did not finish, for this part of the timeout.
constexpr uint64_t kStandstillParts = 30;
constexpr uint64_t kStandstillNs = 10'000'000'000;
// A process that was told to end counts as dead if no other is told to end within this time.
constexpr uint64_t kAskedTogetherNs = 5'000'000'000;

// A dump that is copied and not yet written: this node's turn has not come.
struct HeldDump {
    bool is;
    PendingDump pending;
    uint32_t covered;
    uint64_t due_ns;  // monotonic
};

// The watch thread's own memory.
struct WatchState {
    HeldDump held;
    WatchdogState watchdog;
    StandstillState standstill;
    SignalHistory signals;
    uint64_t last_dump_ns;  // monotonic, 0 none yet
    bool last_dump_for_peer;
    bool last_dump_on_purpose;
    uint64_t calls;          // collectives that there were at the last tick
    uint64_t moved_ns;       // when there were fewer
    uint64_t asked_gone_ns;  // when a process that was told to end was first found gone, 0 none
    uint64_t last_tick_ns;
    TickWork work;
    SaveWork save;
};
constinit WatchState state{};
constinit std::atomic<int32_t> watch_tid{0};
constinit std::atomic<bool> started{false};
constinit std::atomic<bool> left{false};

bool on_purpose(DumpReason reason) {
    return reason == DumpReason::kSignal || reason == DumpReason::kApi || reason == DumpReason::kRequest;
}

bool within(uint64_t span_ns) { return state.last_dump_ns != 0 && monotonic_now_ns() - state.last_dump_ns < span_ns; }

bool is_programs_own_signal() {
    if (!program_handles_dump_signal()) {
        return false;
    }
    SignalHistory& history = state.signals;
    const uint64_t now_ns = monotonic_now_ns();
    history.dumps = now_ns - history.last_ns > kSignalsOverNs ? 0 : history.dumps;
    history.last_ns = now_ns;
    if (within(kBetweenSignalsNs) || history.dumps == kSignalDumps) {
        warn_once(
            "the program handles the dump signal itself and gets it often: not every one causes a dump (see "
            "TITANTRACE_SIGNAL)");
        return true;
    }
    ++history.dumps;
    return false;
}

Evidence evidence_of(DumpReason cause) {
    switch (cause) {
        case DumpReason::kTimeout: return Evidence::kHang;
        case DumpReason::kAbort:
        case DumpReason::kCrash:
        case DumpReason::kEnd: return Evidence::kEnd;
        default: return Evidence::kNone;
    }
}

// A signal that the program handles was for the program: a request of a launcher to save and leave, say.
bool keeps_rings(DumpReason cause) { return cause != DumpReason::kSignal || !program_handles_dump_signal(); }

bool crashed_itself(const Session& session) {
    return std::atomic_ref(session.ring_file.header->state).load(std::memory_order_relaxed) ==
           format::ProcessState::kCrashed;
}

// A dump for this reason that comes this soon after the last one joins it. A hang that is reported now was already
// visible in a dump younger than the timeout, but not in an older one.
uint64_t join_ns(const Session& session, DumpReason reason) {
    if (on_purpose(reason)) {
        return kJoinOnPurposeNs;
    }
    return reason == DumpReason::kTimeout ? std::min(kJoinNs, session.config.timeout_ns) : kJoinNs;
}

bool joins_last_dump(const Session& session, DumpReason reason) {
    switch (reason) {
        case DumpReason::kSignal:
            return (state.last_dump_for_peer && within(kJoinOnPurposeNs)) || is_programs_own_signal();
        case DumpReason::kApi:
        case DumpReason::kExit: return false;
        case DumpReason::kCrash: return within(kJoinNs) && !crashed_itself(session);
        // A dump that somebody wanted to have shows nothing of a failure that came after it.
        case DumpReason::kEnd:
            return within(kJoinNs) && (!state.last_dump_on_purpose || is_asked_to_end(*session.ring_file.header));
        default: return within(join_ns(session, reason));
    }
}

bool peer_joins_last_dump(const Session& session, const JobRequest& request) {
    return within(join_ns(session, request.reason));
}

void describe_peer(const JobRequest& request, PendingDump& pending) {
    std::string_view reason = format::name_of(request.reason);
    pending.reason = DumpReason::kPeer;
    pending.rank = request.rank;
    pending.cause = request.reason;
    TextWriter text(pending.detail, sizeof(pending.detail));
    text.format("asked by rank %d (", request.rank);
    text.text(reason.data(), reason.size());
    if (request.detail[0] != '\0') {
        text.format(": %s", request.detail);
    }
    text.text(")");
}

JobRequest request_of(const Session& session, const PendingDump& pending) {
    JobRequest request{pending.reason, session.identity.rank, session.identity.pid, realtime_now_ns(), {}};
    copy_text(request.detail, sizeof(request.detail), pending.detail);
    return request;
}

bool stands_still(const Session& session) {
    const uint64_t timeout_ns = session.config.timeout_ns;
    const uint64_t limit_ns = timeout_ns == 0 ? kStandstillNs : std::min(timeout_ns / kStandstillParts, kStandstillNs);
    PendingCollective pending{};
    return monotonic_now_ns() - state.moved_ns > limit_ns ||
           (session.gpu_progress.oldest_pending(pending) &&
            ticks_to_ns(now_ticks() - pending.entered_ticks) > limit_ns);
}

// The process was told to end, or leaves with a failure. Is that more than a job that is cancelled?
bool is_worth_a_dump(const Session& session) {
    const JobProcess* dead = nullptr;
    return !is_asked_to_end(*session.ring_file.header) || stands_still(session) || notice_dead(dead, false) ||
           has_anyone_died();
}

// Processes that must dump, too.
enum class Notify { kNobody, kOtherNodes, kAll };

// Whoever ends one rank by a signal ends the others, too; but others must be told of a failure.
Notify whom_to_notify(const Session& session, DumpReason reason) {
    const bool own_affair = reason == DumpReason::kPeer || reason == DumpReason::kExit ||
                            (reason == DumpReason::kEnd && is_asked_to_end(*session.ring_file.header));
    return own_affair ? Notify::kNobody : Notify::kAll;
}

void dump_exited(Session& session) {
    if (crashed_itself(session)) {
        return;  // this process is about to die itself: leave them to the living
    }
    claim_gone([](const JobProcess& process) {
        Session* current = tracer::session();
        return current != nullptr && write_dump_of_gone(*current, process);
    });
}

// The last chance: once a launcher ends this process, too, nobody is left to save the ring of the one that died first.
void save_the_dead(Session& session) {
    const JobProcess* dead = nullptr;
    notice_dead(dead, false);
    dump_exited(session);
}

void answer_requests(uint32_t covered, bool has_file) {
    if (has_file) {
        note_dump_at_end();
    }
    mark_complete(covered, has_file);
}

// The file of what was copied, and the answer to those who wait for it.
void write_held(Session& session) {
    const HeldDump held = state.held;
    const PendingDump& pending = held.pending;
    state.held.is = false;
    const int32_t asked_by = pending.rank >= 0 ? pending.rank : session.identity.rank;
    const bool written = write_dump(
        session, {pending.reason, asked_by, pending.detail, evidence_of(pending.cause), keeps_rings(pending.cause)});
    const bool ends = pending.reason == DumpReason::kEnd;
    if (written && (ends || crashed_itself(session))) {
        note_last_dump();
    }
    if (ends) {
        save_the_dead(session);
    }
    answer_requests(held.covered, written);
}

// Peers first, then the copy: all ranks should be seen at the same moment; the slow part, the files, comes last. A
// timeout comes on all nodes at once, and those in a hang have time: they write in turn.
void dump(Session& session, const PendingDump& pending, uint32_t covered, Notify notify) {
    format::RingHeader& header = *session.ring_file.header;
    const JobRequest request = request_of(session, pending);
    if (notify == Notify::kAll) {
        publish_request(request);
    }
    note_dump_begun(header);
    state.last_dump_ns = monotonic_now_ns();
    state.last_dump_for_peer = pending.reason == DumpReason::kPeer;
    state.last_dump_on_purpose = on_purpose(pending.cause);
    if (!on_purpose(pending.reason) && pending.cause != DumpReason::kStandstill) {
        state.watchdog.documented_ticks = now_ticks();
    }
    session.gpu_progress.look_now(kLookNs);
    take_snapshot(session);
    take_stacks(session);
    mark_snapshot(covered);
    if (notify != Notify::kNobody) {
        ask_other_nodes(request);
    }
    const uint64_t wait_ns =
        comes_everywhere(pending.cause) ? turn_ns(session.identity.rank, session.identity.world_size, ranks_here()) : 0;
    state.held = {true, pending, covered, monotonic_now_ns() + wait_ns};
    if (wait_ns == 0) {
        write_held(session);
    }
}

bool has_asked_one_died_alone(const Session& session) {
    if (!is_asked_one_gone()) {
        state.asked_gone_ns = 0;
        return false;
    }
    const uint64_t now_ns = monotonic_now_ns();
    state.asked_gone_ns = state.asked_gone_ns == 0 ? now_ns : state.asked_gone_ns;
    return !is_asked_to_end(*session.ring_file.header) && now_ns - state.asked_gone_ns > kAskedTogetherNs;
}

void report_dead(const Session& session) {
    const JobProcess* dead = nullptr;
    if (!notice_dead(dead, has_asked_one_died_alone(session))) {
        return;
    }
    char detail[96];
    format_text(detail, sizeof(detail), "rank %d (pid %d) died", dead->rank, dead->pid);
    if ((session.config.dump_on & dump_bit(DumpReason::kCrash)) != 0) {
        leave_request(DumpReason::kCrash, detail);
    } else {
        warn_once("%s", detail);
    }
}

// Every rank of the node that is to dump was asked itself.
void dump_for_outside(Session& session, uint64_t request, uint32_t covered) {
    PendingDump pending{DumpReason::kRequest, session.identity.rank, DumpReason::kRequest, {}};
    format_text(pending.detail, sizeof(pending.detail), "asked by titan-dump (pid %d)", format::asker_of(request));
    dump(session, pending, covered, format::asks_other_nodes(request) ? Notify::kOtherNodes : Notify::kNobody);
}

// A request of this process, where there is one.
enum class Answer { kNone, kDump, kJoin, kNothing };

Answer answer_to(const Session& session, PendingDump& pending) {
    if (joins_last_dump(session, pending.reason)) {
        return Answer::kJoin;
    }
    if (pending.reason != DumpReason::kEnd || is_worth_a_dump(session)) {
        return Answer::kDump;
    }
    pending.reason = pending.cause = DumpReason::kExit;  // the user may ask for dumps at exit, too
    const bool exited = std::atomic_ref(session.ring_file.header->state).load() == format::ProcessState::kExited;
    return exited && (session.config.dump_on & dump_bit(DumpReason::kExit)) != 0 ? Answer::kDump : Answer::kNothing;
}

void answer_late(uint32_t covered) {
    if (state.held.is) {
        state.held.covered = covered;
        mark_snapshot(covered);
    } else {
        mark_late(covered);
    }
}

// Its turn has come; or there is no time to wait for it: the process is about to end, or somebody waits for a file.
bool must_write_held(const Session& session, Answer answer, DumpReason reason) {
    const bool runs = std::atomic_ref(session.ring_file.header->state).load(std::memory_order_relaxed) ==
                      format::ProcessState::kRunning;
    const bool may_wait = comes_everywhere(reason) || reason == DumpReason::kPeer;
    return monotonic_now_ns() >= state.held.due_ns || !runs || answer == Answer::kNothing ||
           (answer == Answer::kJoin && !may_wait);
}

void serve(Session& session) {
    PendingDump pending{};
    uint32_t covered = 0;
    JobRequest request{};
    uint64_t outside_request = 0;
    const Requests requests = take_requests(pending, covered);
    if (requests == Requests::kLate) {
        answer_late(covered);
    }
    if (requests == Requests::kTaken && pending.reason == DumpReason::kEnd) {
        state.save(session, false);
    }
    const Answer answer = requests == Requests::kTaken ? answer_to(session, pending) : Answer::kNone;
    const bool peer_asked = next_request(request);
    const bool asked_outside = take_outside_request(*session.ring_file.header, outside_request);
    const bool follows_peer = peer_asked && !peer_joins_last_dump(session, request);
    const bool copies = answer == Answer::kDump || asked_outside || follows_peer;
    const bool writes_held = state.held.is && (copies || must_write_held(session, answer, pending.reason));
    if (writes_held || copies) {
        const DescriptorRoom room;
        if (writes_held) {
            write_held(session);
        }
        if (answer == Answer::kDump) {
            dump(session, pending, covered, whom_to_notify(session, pending.reason));
        } else if (asked_outside) {
            dump_for_outside(session, outside_request, covered);
        } else if (follows_peer) {
            describe_peer(request, pending);
            dump(session, pending, covered, Notify::kNobody);
        }
    }
    if (!copies && answer != Answer::kNone) {
        answer_requests(covered, answer == Answer::kJoin);
    }
    if (writes_held || copies || answer == Answer::kJoin || peer_asked) {
        report_dead(session);
        dump_exited(session);
        if (!state.held.is) {
            release_dump_memory();
        }
    }
}

// Returns true to be called again sooner than usual.
bool tick(Session& session) {
    format::RingHeader& header = *session.ring_file.header;
    const uint64_t now_ns = monotonic_now_ns();
    const uint64_t calls = session.collectives.head();
    state.moved_ns = calls != state.calls || state.moved_ns == 0 ? now_ns : state.moved_ns;
    state.calls = calls;
    if (now_ns - state.last_tick_ns >= kTickNs) {
        state.last_tick_ns = now_ns;
        std::atomic_ref(header.heartbeat_ticks).store(now_ticks(), std::memory_order_relaxed);
        write_anchor(header.last_anchor);
        watch_children();
        const bool leads = hold_lease();
        set_remote_polling(leads);
        if (leads) {
            notice_replaced(was_replaced);
            report_dead(session);
        }
    }
    poll_call_sites(session.call_sites);
    const bool soon = state.work(session, now_ns);
    poll_sampling(session, !state.held.is);
    char detail[sizeof(PendingDump::detail)];
    if (find_stuck(session, state.watchdog, detail, sizeof(detail))) {
        request_dump(DumpReason::kTimeout, detail);
    } else if (!state.held.is &&  // its stacks lie in the memory that a look at this process would take
               find_standstill(session, state.standstill, state.moved_ns, detail, sizeof(detail))) {
        request_dump(DumpReason::kStandstill, detail);
    }
    return soon;
}

uint64_t pause_ns(uint64_t usual_ns, bool soon) {
    const uint64_t pause_ns = soon ? std::min(kSoonNs, usual_ns) : usual_ns;
    const uint64_t due_ns = std::min(state.held.is ? state.held.due_ns : UINT64_MAX, next_sample_ns());
    const uint64_t now_ns = due_ns == UINT64_MAX ? 0 : monotonic_now_ns();
    return std::min(pause_ns, due_ns - std::min(due_ns, now_ns));
}

uint64_t tick_length_ns(const Config& config) {
    uint64_t length_ns = config.timeout_ns == 0 ? kTickNs : config.timeout_ns / 8;
    length_ns = length_ns < kShortestTickNs ? kShortestTickNs : length_ns;
    return length_ns < kTickNs ? length_ns : kTickNs;
}

void run_watch(void* argument) {
    Session& session = *static_cast<Session*>(argument);
    watch_tid.store(gettid(), std::memory_order_relaxed);
    const uint64_t usual_pause_ns = tick_length_ns(session.config);
    start_answering(*session.ring_file.header);
    for (;;) {
        // Read before looking for work: a wake-up after this makes the wait return at once.
        std::atomic<uint32_t>& word = wake_word();
        const uint32_t before = word.load(std::memory_order_acquire);
        const bool soon = tick(session);
        serve(session);
        futex_wait(word, before, pause_ns(usual_pause_ns, soon), FutexScope::kShared);
    }
}

// Not in a forked child, not where the thread could not be had, and not on the thread itself.
bool someone_answers() {
    return session() != nullptr && started.load(std::memory_order_acquire) &&
           watch_tid.load(std::memory_order_relaxed) != gettid();
}

}  // namespace

bool start_watch(TickWork work, SaveWork save) {
    Session* current = session();
    if (current == nullptr) {
        return false;
    }
    state = WatchState{};
    state.work = work;
    state.save = save;
    started.store(false, std::memory_order_relaxed);
    left.store(false, std::memory_order_relaxed);
    reset_requests();
    prepare_dumper(*current);
    keep_spare_descriptors(current->ring_file);
    watch_exit_status();
    if (current->config.stacks.dump && !prepare_stacks(current->config.dump_signal != 0)) {
        warn_once("no memory for stacks: dumps go without");
    }
    start_sampling(*current);
    start_call_sites(current->call_sites);
    join_job(current->config, current->identity, current->ring_file);
    set_remote_polling(hold_lease());
    start_remote(*current);
    if (!start_own_thread("titan-watch", run_watch, current)) {
        warn_once("no thread for dumps: only the ring file will show what happened");
        return false;
    }
    started.store(true, std::memory_order_release);
    return true;
}

void request_dump(DumpReason reason, const char* detail) {
    Session* current = session();
    const bool always = reason == DumpReason::kApi || reason == DumpReason::kPeer;
    if (current == nullptr || (!always && (current->config.dump_on & dump_bit(reason)) == 0)) {
        return;
    }
    leave_request(reason, detail);
    wake_watchers();
}

void request_peer_dump(const JobRequest& request) {
    PendingDump pending{};
    describe_peer(request, pending);
    leave_request_of_peer(request.rank, request.reason, pending.detail);
    wake_watchers();
}

bool wait_for_dump(uint64_t timeout_ns) { return someone_answers() && await_complete(timeout_ns); }

bool wait_for_snapshot(uint64_t timeout_ns) { return someone_answers() && await_snapshot(timeout_ns); }

void session_exit(int status) {
    Session* current = session();
    // A vfork child shares our memory, and ends with _exit when its exec fails.
    if (current == nullptr || current->identity.pid != getpid() || left.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    if (exiting_from_crash()) {
        return;
    }
    format::RingHeader& header = *current->ring_file.header;
    note_exit(header, status);
    std::atomic_ref(header.state).store(format::ProcessState::kExited, std::memory_order_release);
    request_dump(DumpReason::kExit, "");
    if (exited_in_failure(header)) {
        char detail[32];
        format_text(detail, sizeof(detail), "exit status %d", header.exit_status_next - 1);
        request_dump(DumpReason::kEnd, detail);
    }
    const bool dumped = wait_for_dump(kExitWaitNs);
    if (exited_in_failure(header)) {
        set_job_state(dumped                    ? JobState::kCrashed
                      : is_asked_to_end(header) ? JobState::kAskedToEnd
                                                : JobState::kDead);  // its ring stays
    } else {
        const bool is_last = begin_leaving();
        if (state.save != nullptr) {
            state.save(*current, is_last);
        }
        leave_job(is_last);
    }
}

}  // namespace titan::tracer

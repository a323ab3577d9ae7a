// The dump path from top to bottom: what was asked for becomes a file, on the watch thread.
//
//   serve_requests    takes the requests of this process, of other ranks and of tools, and chooses what to dump for
//     dump            tells the others, copies the ring, takes the stacks, wakes those who wait for the copy
//     write_held      the file, at once or in this node's turn; then those who wait for it
//
// Each step is a call by name: which requests are worth a dump (dump_policy.cpp, by dump_reasons.def), the copy, the
// stacks and the file (dumper.cpp), the other ranks (job.cpp) and nodes (remote_request.cpp), the dead (deaths.cpp).
// The rest of the process may hang with any lock held: nothing here or below takes one, allocates, or calls CUDA or
// NCCL.
#include "dump_path.h"

#include <atomic>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "deaths.h"
#include "descriptor_room.h"
#include "dump_policy.h"
#include "dumper.h"
#include "ending.h"
#include "remote_request.h"
#include "requests.h"
#include "signals.h"
#include "watchdog.h"

namespace titan::tracer {
namespace {

using format::DumpReason;

constexpr uint64_t kLookNs = 20'000'000;  // to bring the entries up to the device's marks; a driver may hang

// A dump that is copied and not yet written: this node's turn has not come.
struct HeldDump {
    bool is;
    PendingDump pending;
    uint32_t covered;
    uint64_t due_ns;  // monotonic
};
constinit HeldDump held{};

// Who else must dump.
enum class Notify { kNobody, kOtherNodes, kAll };

Answer take_own_request(Session& session, PendingDump& pending, uint32_t& covered);
std::optional<Notify> choose_dump(const Session& session, Answer answer, uint64_t outside_request,
                                  const JobRequest* peer, PendingDump& pending);
bool must_write_held(const Session& session, Answer answer, DumpReason reason);
void dump(Session& session, const PendingDump& pending, uint32_t covered, Notify notify);
void write_held(Session& session);
void answer_requests(uint32_t covered, bool has_file);

}  // namespace

void serve_requests(Session& session) {
    PendingDump pending{};
    uint32_t covered = 0;
    const Answer answer = take_own_request(session, pending, covered);
    const DumpReason own_reason = pending.reason;
    JobRequest peer{};
    const bool peer_asked = next_request(peer);
    const uint64_t outside_request = take_outside_request(*session.ring_file.header);

    const std::optional<Notify> dumps_and_notifies =
        choose_dump(session, answer, outside_request, peer_asked ? &peer : nullptr, pending);
    const bool dumps = dumps_and_notifies.has_value();
    const bool writes_held = held.is && (dumps || must_write_held(session, answer, own_reason));
    if (writes_held || dumps) {
        const DescriptorRoom room;
        if (writes_held) {
            write_held(session);
        }
        if (dumps) {
            dump(session, pending, covered, *dumps_and_notifies);
        }
    }
    if (!dumps && answer != Answer::kNone) {
        answer_requests(covered, answer == Answer::kJoin);
    }
    if (writes_held || dumps || answer == Answer::kJoin || peer_asked) {
        report_dead(session);
        dump_the_gone(session);
        if (!held.is) {
            release_dump_memory();
        }
    }
}

namespace {

Answer take_own_request(Session& session, PendingDump& pending, uint32_t& covered) {
    switch (take_requests(pending, covered)) {
        case Requests::kNone: return Answer::kNone;
        case Requests::kLate:  // the copy that was just made answers it
            if (held.is) {
                held.covered = covered;
                mark_snapshot(covered);
            } else {
                mark_late(covered);
            }
            return Answer::kNone;
        case Requests::kTaken: break;
    }
    if (pending.reason == DumpReason::kEnd) {
        save_what_is_left(session, false);
    }
    return answer_to(session, pending);
}

// One dump answers all: that for this process's own request, or for a tool, or for another rank that dumps. None: no
// request deserves one.
std::optional<Notify> choose_dump(const Session& session, Answer answer, uint64_t outside_request,
                                  const JobRequest* peer, PendingDump& pending) {
    if (answer == Answer::kDump) {
        return tells_others(session, pending.reason) ? Notify::kAll : Notify::kNobody;
    }
    if (outside_request != 0) {
        pending = {DumpReason::kRequest, session.identity.rank, DumpReason::kRequest, {}};
        format_text(pending.detail, sizeof(pending.detail), "asked by titan-dump (pid %d)",
                    format::asker_of(outside_request));
        // Every rank of the node that is to dump was asked itself.
        return format::asks_other_nodes(outside_request) ? Notify::kOtherNodes : Notify::kNobody;
    }
    if (peer != nullptr && !peer_joins_last_dump(session, *peer)) {
        pending = pending_of_peer(*peer);
        return Notify::kNobody;
    }
    return std::nullopt;
}

// Its turn has come; or there is no time to wait for it: the process is about to end, or somebody waits for a file.
bool must_write_held(const Session& session, Answer answer, DumpReason reason) {
    const bool runs = std::atomic_ref(session.ring_file.header->state).load(std::memory_order_relaxed) ==
                      format::ProcessState::kRunning;
    const bool may_wait = row_of(reason).strikes == Strikes::kEverywhere || reason == DumpReason::kPeer;
    return monotonic_now_ns() >= held.due_ns || !runs || answer == Answer::kNothing ||
           (answer == Answer::kJoin && !may_wait);
}

JobRequest request_of(const Session& session, const PendingDump& pending) {
    JobRequest request{pending.reason, session.identity.rank, session.identity.pid, realtime_now_ns(), {}};
    copy_text(request.detail, sizeof(request.detail), pending.detail);
    return request;
}

// Peers first, then the copy: all ranks should be seen at the same moment; the slow part, the files, comes last.
void dump(Session& session, const PendingDump& pending, uint32_t covered, Notify notify) {
    const JobRequest request = request_of(session, pending);
    if (notify == Notify::kAll) {
        publish_request(request);
    }
    note_dump_begun(*session.ring_file.header);
    note_dump(pending);
    if (row_of(pending.reason).comes == Comes::kByItself && pending.cause != DumpReason::kStandstill) {
        note_documented();
    }
    session.gpu_progress.look_now(kLookNs);
    take_snapshot(session);
    take_stacks(session, crashing_thread());
    mark_snapshot(covered);
    if (notify != Notify::kNobody) {
        ask_other_nodes(request);
    }
    const uint64_t wait_ns = row_of(pending.cause).strikes == Strikes::kEverywhere
                                 ? turn_ns(session.identity.rank, session.identity.world_size, ranks_here())
                                 : 0;
    held = {true, pending, covered, monotonic_now_ns() + wait_ns};
    if (wait_ns == 0) {
        write_held(session);
    }
}

// The file of what was copied, and the answer to those who wait for it.
void write_held(Session& session) {
    const HeldDump now = held;
    const PendingDump& pending = now.pending;
    held.is = false;
    const int32_t asked_by = pending.rank >= 0 ? pending.rank : session.identity.rank;
    const bool written = write_dump(
        session, {pending.reason, asked_by, pending.detail, row_of(pending.cause).shows, keeps_rings(pending.cause)});
    const bool ends = pending.reason == DumpReason::kEnd;
    if (written && (ends || crashed_itself(session))) {
        note_last_dump();
    } else if (written && pending.reason == DumpReason::kExit) {
        note_exit_dump();
    }
    if (ends) {
        save_the_dead(session);
    }
    answer_requests(now.covered, written);
}

void answer_requests(uint32_t covered, bool has_file) {
    if (has_file) {
        note_dump_at_end();
    }
    mark_complete(covered, has_file);
}

}  // namespace

void start_dump_path() {
    held = HeldDump{};
    forget_dumps();
    forget_deaths();
    reset_requests();
}

uint64_t held_dump_due_ns() { return held.is ? held.due_ns : UINT64_MAX; }

}  // namespace titan::tracer

#include "requests.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

using format::DumpReason;

enum Place : uint32_t { kFree, kWriting, kReady };

struct RequestPlace {
    std::atomic<uint32_t> state;
    int32_t rank;
    DumpReason cause;
    char detail[sizeof(PendingDump::detail)];
};

constinit RequestPlace places[16]{};  // indexed by reason
static_assert(std::all_of(std::begin(kDumpReasons), std::end(kDumpReasons), [](const DumpReasonRow& row) {
    return static_cast<size_t>(row.reason) < std::size(places);
}));
constinit std::atomic<uint32_t> asked{0};
constinit std::atomic<uint32_t> copied{0};
constinit std::atomic<uint64_t> silent_at_plus_one{0};  // value of `copied` when somebody had waited for it in vain
constinit std::atomic<uint32_t> completed{0};
constinit std::atomic<uint32_t> written{0};  // completed with a file to show for it

void publish(std::atomic<uint32_t>& word, uint32_t covered) {
    if (!reached(word.load(std::memory_order_relaxed), covered)) {
        word.store(covered, std::memory_order_release);
    }
    futex_wake_all(word);
}

bool await(std::atomic<uint32_t>& word, uint32_t wanted, uint64_t timeout_ns) {
    return futex_await(word, monotonic_now_ns() + timeout_ns, [wanted](uint32_t now) { return reached(now, wanted); });
}

void leave(DumpReason reason, int32_t rank, DumpReason cause, const char* detail) {
    RequestPlace& place = places[static_cast<unsigned>(reason) % 16];
    uint32_t free = kFree;
    if (place.state.compare_exchange_strong(free, kWriting, std::memory_order_acquire)) {
        place.rank = rank;
        place.cause = cause;
        copy_text(place.detail, sizeof(place.detail), detail == nullptr ? "" : detail);
        place.state.store(kReady, std::memory_order_release);
    }
    asked.fetch_add(1, std::memory_order_release);
}

}  // namespace

void leave_request(DumpReason reason, const char* detail) { leave(reason, -1, reason, detail); }

PendingDump pending_of_peer(const JobRequest& request) {
    PendingDump pending{DumpReason::kPeer, request.rank, request.reason, {}};
    const std::string_view reason = format::name_of(request.reason);
    TextWriter text(pending.detail, sizeof(pending.detail));
    text.format("asked by rank %d (", request.rank);
    text.text(reason.data(), reason.size());
    if (request.detail[0] != '\0') {
        text.format(": %s", request.detail);
    }
    text.text(")");
    return pending;
}

void leave_request_of_peer(const JobRequest& request) {
    const PendingDump pending = pending_of_peer(request);
    leave(pending.reason, pending.rank, pending.cause, pending.detail);
}

Requests take_requests(PendingDump& pending, uint32_t& covered) {
    // Read before the places: a requester with a number up to this one has filled its place before, or joined one.
    covered = asked.load(std::memory_order_acquire);
    bool found = false;
    bool is_one_being_filled = false;
    for (const DumpReasonRow& row : kDumpReasons) {  // the gravest first
        RequestPlace& place = places[static_cast<unsigned>(row.reason)];
        const uint32_t place_state = place.state.load(std::memory_order_acquire);
        is_one_being_filled |= place_state == kWriting;
        if (place_state != kReady) {
            continue;
        }
        if (!found) {
            pending.reason = row.reason;
            pending.rank = place.rank;
            pending.cause = place.cause;
            copy_text(pending.detail, sizeof(pending.detail), place.detail);
            found = true;
        }
        place.state.store(kFree, std::memory_order_release);
    }
    if (found) {
        return Requests::kTaken;
    }
    const bool all_answered = reached(completed.load(std::memory_order_relaxed), covered);
    return all_answered || is_one_being_filled ? Requests::kNone : Requests::kLate;
}

void mark_snapshot(uint32_t covered) { publish(copied, covered); }

void mark_complete(uint32_t covered, bool has_file) {
    publish(copied, covered);
    if (has_file) {
        publish(written, covered);
    }
    publish(completed, covered);
}

// The requests taken last have a file if as many dumps are written as completed.
void mark_late(uint32_t covered) {
    mark_complete(covered, written.load(std::memory_order_relaxed) == completed.load(std::memory_order_relaxed));
}

// If the thread does not answer, a process that aborts ten communicators waits only once.
bool await_snapshot(uint64_t timeout_ns) {
    const uint64_t at_plus_one = uint64_t{copied.load(std::memory_order_acquire)} + 1;
    const bool is_silent = silent_at_plus_one.load(std::memory_order_relaxed) == at_plus_one;
    const bool is_copied = await(copied, asked.load(std::memory_order_acquire), is_silent ? 0 : timeout_ns);
    if (!is_copied) {
        silent_at_plus_one.store(at_plus_one, std::memory_order_relaxed);
    }
    return is_copied;
}

bool await_complete(uint64_t timeout_ns) {
    const uint32_t wanted = asked.load(std::memory_order_acquire);
    return await(completed, wanted, timeout_ns) && reached(written.load(std::memory_order_acquire), wanted);
}

void reset_requests() {
    for (RequestPlace& place : places) {
        place.state.store(kFree, std::memory_order_relaxed);
    }
    const uint32_t now = asked.load(std::memory_order_relaxed);
    copied.store(now, std::memory_order_relaxed);
    completed.store(now, std::memory_order_relaxed);
    written.store(now, std::memory_order_relaxed);
}

namespace {

constinit uint64_t seen_request = 0;

}  // namespace

void start_answering(format::RingHeader& header) {
    seen_request = std::atomic_ref(header.dump_request).load(std::memory_order_relaxed);
    std::atomic_ref(header.dump_answers).store(1, std::memory_order_release);
}

uint64_t take_outside_request(format::RingHeader& header) {
    const uint64_t request = std::atomic_ref(header.dump_request).load(std::memory_order_acquire);
    return request != std::exchange(seen_request, request) ? request : 0;
}

void note_dump_begun(format::RingHeader& header) {
    std::atomic_ref(header.dumps_begun).fetch_add(1, std::memory_order_acq_rel);
}

// What a reader asks about next comes first: who sees that the dump has ended sees its path, and that it was written.
void note_dump_ended(format::RingHeader& header, const char* path) {
    if (path != nullptr) {
        std::atomic_ref(header.dumps_written).fetch_add(1, std::memory_order_relaxed);
    }
    if (path == nullptr || !copy_text(header.last_dump, sizeof(header.last_dump), path)) {
        header.last_dump[0] = '\0';
    }
    std::atomic_ref(header.dumps_ended).fetch_add(1, std::memory_order_release);
}

}  // namespace titan::tracer

#include "watchdog.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"
#include "capture_stacks.h"
#include "formats/layout/stacks_layout.h"
#include "formats/layout/waits_outside_nccl.h"
#include "stack_image.h"

namespace titan::tracer {
namespace {

// Looks follow each other after an eighth of the timeout, a second at most. A thread that comes back so late had no
// processor all the while, nor had the program's: nobody could finish a call.
constexpr uint64_t kLeastStopNs = 2'000'000'000;

constexpr uint64_t kStandstillParts = 30;
constexpr uint64_t kStandstillNs = 10'000'000'000;

struct WatchdogState {
    uint64_t reported_ticket_plus_one;     // collective that was reported last
    uint64_t documented_ticks;             // a dump shows calls entered before this moment as stuck already
    uint64_t reported_entered_ticks[512];  // indexed by row of the threads table
    uint64_t reported_created_ticks;       // the newest creation that was reported
    uint64_t looked_ticks;
    uint64_t resumed_ticks;  // the process was stopped, or the machine slept, until then: waits count from there

    uint64_t calls;              // collectives that there were at the last tick
    uint64_t moved_ns;           // when there were fewer (monotonic)
    uint64_t looked_outside_ns;  // at stacks, for a wait outside NCCL (monotonic), 0 never
    uint64_t reported_moved_ns;  // the standstill that was reported: since when
};
constinit WatchdogState watchdog{};

template <typename T>
T load(T& field) {
    return std::atomic_ref(field).load(std::memory_order_acquire);
}

// A name in the ring's string table, cut and made printable.
void write_name(const StringTable& strings, uint32_t id, TextWriter& text) {
    size_t length = 0;
    const char* const bytes = strings.text_of(id, length);
    if (bytes == nullptr) {
        text.text("a call");
        return;
    }
    char name[64];
    TextWriter(name, sizeof(name)).text(bytes, length);
    text.escaped(name);
}

// Its name, where the program or its framework gave it one, else its number.
void write_communicator(Session& session, uint64_t id, TextWriter& text) {
    uint32_t name = 0;
    session.communicators.each_record([&](const format::CommunicatorRecord& record) {
        name = record.id == id && record.name != 0 ? record.name : name;
    });
    if (name == 0) {
        text.format("communicator %016lx", id);
    } else {
        write_name(session.strings, name, text);
    }
}

void describe_collective(Session& session, uint64_t ticket, uint64_t stuck_s, TextWriter& text) {
    if (const format::CollectiveEntry* const entry = session.collectives.find(ticket); entry != nullptr) {
        const std::string_view kind = format::name_of(entry->kind);
        text.text(kind.data(), kind.size());
        if (entry->sequence != format::kNoSequence) {
            text.format(" #%lu", entry->sequence);
        }
        text.text(" on ");
        write_communicator(session, entry->communicator_id, text);
        text.format(" not finished for %lu s", stuck_s);
        return;
    }
    text.format("a collective not finished for %lu s", stuck_s);
}

// A program that made a communicator without waiting for it, and asks NCCL again and again whether it is ready, stands
// inside no call.
bool is_creation_stuck(const AwaitedCreation& awaited, uint64_t timeout_ns, uint64_t now) {
    const uint64_t asked = awaited.asked_ticks.load(std::memory_order_relaxed);
    const uint64_t created = awaited.created_ticks.load(std::memory_order_relaxed);
    const uint64_t since = std::max(created, watchdog.resumed_ticks);
    return asked != 0 && (now <= asked || ticks_to_ns(now - asked) < std::max(timeout_ns, kLeastStopNs)) &&
           created > std::max(watchdog.reported_created_ticks, watchdog.documented_ticks) && since < now &&
           ticks_to_ns(now - since) > timeout_ns;
}

}  // namespace

void reset_watchdog() { watchdog = WatchdogState{}; }

void note_progress(const Session& session) {
    const uint64_t calls = session.collectives.head();
    if (calls != watchdog.calls || watchdog.moved_ns == 0) {
        watchdog.moved_ns = monotonic_now_ns();
    }
    watchdog.calls = calls;
}

void note_documented() { watchdog.documented_ticks = now_ticks(); }

bool find_stuck(Session& session, char* detail, size_t capacity_bytes) {
    format::RingHeader& header = *session.ring_file.header;
    const uint64_t timeout_ns = session.config.timeout_ns;
    if (timeout_ns == 0) {
        return false;
    }
    const uint64_t now = now_ticks();
    if (watchdog.looked_ticks != 0 && now > watchdog.looked_ticks &&
        ticks_to_ns(now - watchdog.looked_ticks) > std::max(timeout_ns / 2, kLeastStopNs)) {
        watchdog.resumed_ticks = now;
    }
    watchdog.looked_ticks = now;
    auto stuck_ns = [&](uint64_t entered_ticks) {
        // A call from before the session comes from a thread that is shown another counter than ours.
        return entered_ticks < header.first_anchor.ticks || entered_ticks >= now ||
                       entered_ticks <= watchdog.documented_ticks
                   ? uint64_t{0}
                   : ticks_to_ns(now - std::max(entered_ticks, watchdog.resumed_ticks));
    };
    bool found = false;
    TextWriter text(detail, capacity_bytes);
    PendingCollective pending{};
    if (session.gpu_progress.oldest_pending(pending) && stuck_ns(pending.entered_ticks) > timeout_ns &&
        watchdog.reported_ticket_plus_one != pending.ticket + 1) {
        watchdog.reported_ticket_plus_one = pending.ticket + 1;
        describe_collective(session, pending.ticket, stuck_ns(pending.entered_ticks) / 1'000'000'000, text);
        found = true;
    }
    constexpr uint64_t kRows = sizeof(watchdog.reported_entered_ticks) / sizeof(watchdog.reported_entered_ticks[0]);
    for (uint64_t row = 0; row < session.thread_rows && row < kRows; ++row) {
        const uint64_t entered_ticks = load(session.threads[row].entered_ticks);
        const uint32_t thread = load(session.threads[row].thread);
        if (thread == 0 || stuck_ns(entered_ticks) <= timeout_ns ||
            watchdog.reported_entered_ticks[row] == entered_ticks) {
            continue;
        }
        watchdog.reported_entered_ticks[row] = entered_ticks;
        if (!found) {
            text.format("thread %u inside ", thread);
            write_name(session.strings, load(session.threads[row].call), text);
            text.format(" for %lu s", stuck_ns(entered_ticks) / 1'000'000'000);
            found = true;
        }
    }
    const AwaitedCreation& awaited = session.communicators.awaited;
    if (!found && is_creation_stuck(awaited, timeout_ns, now)) {
        watchdog.reported_created_ticks = awaited.created_ticks.load(std::memory_order_relaxed);
        text.text("the creation of ");
        write_communicator(session, awaited.communicator_id.load(std::memory_order_relaxed), text);
        text.format(" not finished for %lu s", ticks_to_ns(now - watchdog.reported_created_ticks) / 1'000'000'000);
        found = true;
    }
    return found;
}

namespace {

// What that thread waits in for other ranks outside NCCL ("Gloo", "the store"), as far as exported names tell; empty
// where no frame is named so.
std::string_view wait_outside_nccl(std::span<const char> image, pid_t tid) {
    using format::StackTable;
    if (image.empty()) {
        return {};
    }
    const auto threads = rows_of<format::StackThread>(image, StackTable::kThreads);
    const auto thread = std::find_if(threads.begin(), threads.end(),
                                     [tid](const format::StackThread& candidate) { return candidate.tid == tid; });
    if (thread == threads.end()) {
        return {};
    }
    const auto frames =
        rows_of<format::StackFrame>(image, StackTable::kFrames).subspan(thread->first_frame, thread->frame_count);
    const char* const texts = rows_of<char>(image, StackTable::kTexts).data();
    for (const format::WaitOutsideNccl& wait : format::kWaitsOutsideNccl) {
        for (const format::StackName& name : rows_of<format::StackName>(image, StackTable::kNames)) {
            const auto is_here = [&](const format::StackFrame& frame) {
                return (frame.address & ~format::kInterrupted) == name.address;
            };
            if (format::symbol_begins(texts + name.name, wait.begin) &&
                std::any_of(frames.begin(), frames.end(), is_here)) {
                return wait.what;
            }
        }
    }
    return {};
}

std::string_view wait_of_program(Session& session) {
    const std::span<const char> image = collect_stacks(0);
    std::string_view wait = wait_outside_nccl(image, session.identity.pid);
    for (uint64_t row = 0; wait.empty() && row < session.thread_rows; ++row) {
        const uint32_t thread = std::atomic_ref(session.threads[row].thread).load(std::memory_order_acquire);
        wait = thread == 0 ? wait : wait_outside_nccl(image, static_cast<pid_t>(thread));
    }
    return wait;
}

}  // namespace

bool find_standstill(Session& session, char* detail, size_t capacity_bytes) {
    const uint64_t moved_ns = watchdog.moved_ns;
    const uint64_t timeout_ns = session.config.timeout_ns;
    const uint64_t now_ns = monotonic_now_ns();
    PendingCollective pending{};
    if (timeout_ns == 0 || !session.config.stacks.dump || session.identity.world_size <= 1 ||
        watchdog.reported_moved_ns == moved_ns ||
        now_ns - std::max(moved_ns, watchdog.looked_outside_ns) <= timeout_ns ||
        session.gpu_progress.oldest_pending(pending)) {
        return false;
    }
    watchdog.looked_outside_ns = now_ns;
    const std::string_view wait = wait_of_program(session);
    if (!wait.empty()) {
        watchdog.reported_moved_ns = moved_ns;
        TextWriter text(detail, capacity_bytes);
        text.format("no collective for %lu s, and a wait for others in ", (now_ns - moved_ns) / 1'000'000'000);
        text.text(wait.data(), wait.size());
    }
    release_stacks_memory();
    return !wait.empty();
}

bool stands_still(const Session& session) {
    const uint64_t timeout_ns = session.config.timeout_ns;
    const uint64_t limit_ns = timeout_ns == 0 ? kStandstillNs : std::min(timeout_ns / kStandstillParts, kStandstillNs);
    PendingCollective pending{};
    return monotonic_now_ns() - watchdog.moved_ns > limit_ns ||
           (session.gpu_progress.oldest_pending(pending) &&
            ticks_to_ns(now_ticks() - pending.entered_ticks) > limit_ns);
}

}  // namespace titan::tracer

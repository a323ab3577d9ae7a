#include "watchdog.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

// Looks follow each other after an eighth of the timeout, a second at most. A thread that comes back so late had no
// processor all the while, nor had the program's: nobody could finish a call.
constexpr uint64_t kLeastStopNs = 2'000'000'000;

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

}  // namespace

bool find_stuck(Session& session, WatchdogState& state, char* detail, size_t capacity_bytes) {
    format::RingHeader& header = *session.ring_file.header;
    const uint64_t timeout_ns = session.config.timeout_ns;
    if (timeout_ns == 0) {
        return false;
    }
    const uint64_t now = now_ticks();
    if (state.looked_ticks != 0 && now > state.looked_ticks &&
        ticks_to_ns(now - state.looked_ticks) > std::max(timeout_ns / 2, kLeastStopNs)) {
        state.resumed_ticks = now;
    }
    state.looked_ticks = now;
    // A dump that was made because of a hang shows everything that hung then; the next call that hangs is news.
    auto stuck_ns = [&](uint64_t entered_ticks) {
        // A call from before the session comes from a thread that is shown another counter than ours.
        return entered_ticks < header.first_anchor.ticks || entered_ticks >= now ||
                       entered_ticks <= state.documented_ticks
                   ? uint64_t{0}
                   : ticks_to_ns(now - std::max(entered_ticks, state.resumed_ticks));
    };
    bool found = false;
    TextWriter text(detail, capacity_bytes);
    PendingCollective pending{};
    if (session.gpu_progress.oldest_pending(pending) && stuck_ns(pending.entered_ticks) > timeout_ns &&
        state.reported_ticket_plus_one != pending.ticket + 1) {
        state.reported_ticket_plus_one = pending.ticket + 1;
        describe_collective(session, pending.ticket, stuck_ns(pending.entered_ticks) / 1'000'000'000, text);
        found = true;
    }
    constexpr uint64_t kRows = sizeof(state.reported_entered_ticks) / sizeof(state.reported_entered_ticks[0]);
    for (uint64_t row = 0; row < session.thread_rows && row < kRows; ++row) {
        const uint64_t entered_ticks = load(session.threads[row].entered_ticks);
        const uint32_t thread = load(session.threads[row].thread);
        if (thread == 0 || stuck_ns(entered_ticks) <= timeout_ns ||
            state.reported_entered_ticks[row] == entered_ticks) {
            continue;
        }
        state.reported_entered_ticks[row] = entered_ticks;
        if (!found) {
            text.format("thread %u inside ", thread);
            write_name(session.strings, load(session.threads[row].call), text);
            text.format(" for %lu s", stuck_ns(entered_ticks) / 1'000'000'000);
            found = true;
        }
    }
    return found;
}

}  // namespace titan::tracer

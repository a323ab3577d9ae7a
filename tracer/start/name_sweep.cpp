#include "name_sweep.h"

#include "plugin_contexts.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kAgainNs = 10'000'000'000;  // pause after a sweep that found little to free

// The ids that records refer to.
class References {
  public:
    void add(uint32_t id) {
        if (id != 0 && id <= kStringRows) {
            bits_[(id - 1) / 64] |= uint64_t{1} << ((id - 1) % 64);
        }
    }
    bool has(uint64_t row) const { return (bits_[row / 64] >> (row % 64) & 1) != 0; }

    // Also reads slots that are being written, and ThreadSanitizer need not report that: the names that they will hold
    // were used a moment ago.
    template <typename Slot, typename... Fields>
    __attribute__((no_sanitize("thread"))) void add_all(Ring<Slot>& ring, Fields Slot::*... fields) {
        for (uint64_t i = 0; i < ring.slots(); ++i) {
            (add(__atomic_load_n(&(ring.at(i).*fields), __ATOMIC_RELAXED)), ...);
        }
    }

  private:
    uint64_t bits_[kStringRows / 64]{};
};

void find_references(Session& session, References& found) {
    found.add_all(session.markers, &format::MarkerEntry::name, &format::MarkerEntry::text);
    found.add_all(session.collectives, &format::CollectiveEntry::span);
    found.add_all(session.cuda_calls, &format::CudaCallEntry::span);
    session.open_spans.each_name([&](uint32_t name) { found.add(name); });
    session.labels.each_name([&](uint32_t name) { found.add(name); });
    for (uint64_t i = 0; i < session.thread_rows; ++i) {
        for (uint32_t& span : session.threads[i].spans) {
            found.add(load_field(span));
        }
    }
    session.communicators.each_record([&](format::CommunicatorRecord& record) {
        found.add(load_field(record.name));
        found.add(load_field(record.excluded));
    });
    each_context_name([](void* references, uint32_t name) { static_cast<References*>(references)->add(name); }, &found);
}

// A thread without a row has spans that nobody else sees, and so has one that finds no row for a span.
bool sees_all_spans(const Session& session) {
    auto& losses = session.header->losses;
    return load_field(losses[static_cast<size_t>(format::Loss::kThreadsUntracked)]) == 0 &&
           load_field(losses[static_cast<size_t>(format::Loss::kSpansDropped)]) == 0;
}

bool is_due(const Session& session, const NameSweep& sweep, uint64_t now_ns) {
    const uint64_t share = session.strings.limit_for_now();
    const uint64_t names = session.strings.names_for_now();
    const uint64_t since_ns = now_ns - sweep.looked_ns;
    const bool many_more = names > share / 4 && names > sweep.names_left + share / 8;
    const bool nearly_full = names > share / 8 * 7 && since_ns >= kAgainNs;
    return since_ns >= kLooksApartNs && sees_all_spans(session) && (sweep.half_done || many_more || nearly_full);
}

bool hurries(const Session& session, const NameSweep& sweep) {
    return sweep.half_done || session.strings.names_for_now() > session.strings.limit_for_now() / 4 * 3;
}

}  // namespace

bool poll_names(Session& session, NameSweep& sweep, uint64_t now_ns) {
    if (!is_due(session, sweep, now_ns)) {
        return hurries(session, sweep);
    }
    References found;
    find_references(session, found);
    StringTable& strings = session.strings;
    for (uint64_t row = 0; row < strings.rows(); ++row) {
        const uint64_t bit = uint64_t{1} << (row % 64);
        uint64_t& unused = sweep.unused[row / 64];
        const bool idle = strings.is_for_now(row) && !found.has(row) && !strings.take_used(row);
        if (sweep.half_done && idle && (unused & bit) != 0) {
            strings.free_row(row);
        }
        unused = !sweep.half_done && strings.is_for_now(row) && !found.has(row) ? unused | bit : unused & ~bit;
    }
    sweep.half_done = !sweep.half_done;
    sweep.names_left = strings.names_for_now();
    sweep.looked_ns = now_ns;
    return hurries(session, sweep);
}

}  // namespace titan::tracer

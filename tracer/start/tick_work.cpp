#include "tick_work.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/map_private.h"
#include "base/text.h"
#include "job.h"
#include "journal.h"
#include "log.h"
#include "modules.h"
#include "plugin_contexts.h"
#include "watch.h"

namespace titan::tracer {
namespace {

struct Room {
    Module modules[4096];
    char maps[64 << 10];
};
// Taken once, as the session starts: later there may be none, and what the program may have then is the program's.
constinit Room* room = nullptr;
constinit uint64_t named_sites = 0;

struct Place {
    char text[kMaxStringBytes + 1];
};

Place place_of(const Module& module, uint64_t address) {
    Place place;
    TextWriter writer(place.text, sizeof(place.text));
    writer.format("0x%lx ", address - module.bias);
    for (uint32_t i = 0; i < module.build_id_bytes; ++i) {
        writer.format("%02x", static_cast<unsigned>(module.build_id[i]));
    }
    writer.text(module.build_id_bytes != 0 ? " " : "- ");
    writer.text(module.path);
    return place;
}

// Puts the native places that call markers into words, "0xOFFSET BUILDID MODULE", which are of use also to readers that
// have nothing of the process but its ring. Once there are more places than at the last look.
void name_marker_sites(Session& session) {
    const uint64_t used = load_field(session.marker_sites_used);
    room = room == nullptr ? map_private<Room>() : room;
    if (used == named_sites || room == nullptr) {
        return;
    }
    named_sites = used;
    ModuleList list{};
    session.marker_sites.each_unnamed([&](uint64_t address, format::MarkerSiteRecord& site) {
        if (list.modules == nullptr) {
            list = {room->modules, sizeof(room->modules) / sizeof(room->modules[0]), 0};
            list_modules(list, room->maps, sizeof(room->maps));
        }
        if (const Module* const module = list.find(address); module != nullptr) {
            store_field(site.place, session.strings.intern(place_of(*module, address).text));
        }
    });
    if (list.modules != nullptr) {
        release_pages(room, sizeof(Room));
    }
}

// A name is freed when it was in no record and was not used, twice in a row: a thread that has just interned it has
// written its record by then.
constexpr uint64_t kLooksApartNs = kSoonNs;
struct NameSweep {
    uint64_t looked_ns;   // monotonic, 0 not yet
    uint64_t names_left;  // names left after the last sweep
    bool half_done;       // the first look is done
    uint64_t unused[kStringRows / 64];
};
constinit NameSweep sweep{};

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

bool is_due(const Session& session, uint64_t now_ns) {
    const uint64_t share = session.strings.limit_for_now();
    const uint64_t names = session.strings.names_for_now();
    const uint64_t since_ns = now_ns - sweep.looked_ns;
    const bool many_more = names > share / 4 && names > sweep.names_left + share / 8;
    const bool nearly_full = names > share / 8 * 7 && since_ns >= kAgainNs;
    return since_ns >= kLooksApartNs && sees_all_spans(session) && (sweep.half_done || many_more || nearly_full);
}

bool hurries(const Session& session) {
    return sweep.half_done || session.strings.names_for_now() > session.strings.limit_for_now() / 4 * 3;
}

// Frees the names for now (string_table.h) that no record refers to any more: once they take a quarter of their share,
// and an eighth more than after the last sweep. True: to be called again in kLooksApartNs.
bool poll_names(Session& session, uint64_t now_ns) {
    if (!is_due(session, now_ns)) {
        return hurries(session);
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
    return hurries(session);
}

using format::MarkerEntry;

constinit uint64_t next_marker = 0;
constinit bool is_told = false;

bool is_nan(const MarkerEntry& marker) {
    return marker.kind == format::MarkerKind::kMetric && std::isnan(std::bit_cast<double>(marker.value));
}

void tell(const Session& session, const MarkerEntry& marker) {
    size_t length = 0;
    const char* const bytes = session.strings.text_of(marker.name, length);
    if (bytes == nullptr || !first_to_tell_of_nan()) {
        return;
    }
    char name[kMaxStringBytes + 1] = {};
    std::memcpy(name, bytes, std::min(length, kMaxStringBytes));
    if (marker.step == format::kNoStep) {
        log_line("metric %s is nan", name);
    } else {
        log_line("metric %s is nan in step %ld", name, static_cast<long>(marker.step));
    }
}

// Tells people at once that a metric is no number: the verdict comes later, and the job trains on. A metric costs
// nothing more. Once per process, and for one process of a node within ten minutes.
void tell_of_nan(Session& session) {
    if (is_told) {
        return;
    }
    session.markers.visit_since(next_marker, [&session](const MarkerEntry& marker) {
        is_told = is_nan(marker);
        if (is_told) {
            tell(session, marker);
        }
        return !is_told;
    });
}

}  // namespace

void start_tick_work() {
    sweep = NameSweep{};
    named_sites = 0;
    next_marker = 0;
    is_told = false;
    reset_journal();
}

bool do_tick_work(Session& session, uint64_t now_ns) {
    name_marker_sites(session);
    tell_of_nan(session);
    tend_journal(session);
    return poll_names(session, now_ns);
}

}  // namespace titan::tracer

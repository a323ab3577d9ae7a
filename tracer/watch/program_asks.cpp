// What a program may ask of its recorder (titantrace.h): a dump, cold; its own newest calls, without a lock or an
// allocation. any-thread.
#define TITAN_IN_TRACER
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "session.h"
#include "tick_times.h"
#include "titantrace.h"
#include "watch.h"

namespace {

using namespace titan;
using namespace titan::tracer;

constexpr uint64_t kDumpWaitNs = 10'000'000'000;

// Names of the communicators, by row.
struct CommunicatorNames {
    explicit CommunicatorNames(const Session& session) {
        session.communicators.each_record([&](format::CommunicatorRecord& record) {
            if (rows < Communicators::kMaxRows) {
                name[rows++] = load_field(record.name);
            }
        });
    }
    uint32_t of(uint32_t row) const { return row < rows ? name[row] : 0; }

    uint32_t rows = 0;
    uint32_t name[Communicators::kMaxRows];
};

template <size_t Bytes>
void copy_name(const Session& session, uint32_t id, char (&into)[Bytes]) {
    size_t length = 0;
    const char* const text = session.strings.text_of(id, length);
    length = text == nullptr ? 0 : std::min(length, Bytes - 1);
    if (length != 0) {
        memcpy(into, text, length);
    }
    into[length] = '\0';
}

template <typename E>
const char* word_of(E value) {
    const std::string_view name = format::name_of(value);
    return name.empty() ? "" : name.data();  // literals: they end with a zero
}

titan_call call_of(const Session& session, const CommunicatorNames& names, const TickTimes& times,
                   const format::CollectiveEntry& entry, uint64_t ticket) {
    titan_call call{};
    call.ticket = ticket;
    call.communicator = entry.communicator_id;
    call.sequence = entry.sequence == format::kNoSequence ? -1 : static_cast<int64_t>(entry.sequence);
    call.count = entry.count;
    call.group = entry.group;
    call.step = entry.step;
    call.entered_ns = times.realtime_ns(entry.entered_ticks);
    call.returned_ns = times.realtime_ns(entry.returned_ticks);
    call.gpu_started_ns = times.realtime_ns(entry.gpu_started_ticks);
    call.gpu_finished_ns = times.realtime_ns(entry.gpu_finished_ticks);
    call.peer = entry.peer;
    call.comm_rank = entry.comm_rank;
    call.device = entry.device;
    call.result = entry.result;
    call.thread = entry.thread;
    call.op = word_of(entry.kind);
    call.datatype = word_of(entry.datatype);
    call.reduction = word_of(entry.reduction);
    call.state = word_of(entry.state);
    copy_name(session, names.of(entry.communicator), call.communicator_name);
    copy_name(session, entry.span, call.span);
    return call;
}

}  // namespace

int titan_dump(const char* reason) {
    if (titan::tracer::session() == nullptr) {
        return -1;
    }
    request_dump(format::DumpReason::kApi, reason != nullptr ? reason : "");
    return wait_for_dump(kDumpWaitNs) ? 0 : -1;
}

size_t titan_record(titan_call* calls, size_t most, size_t call_bytes) {
    Session* const current = titan::tracer::session();
    if (current == nullptr || calls == nullptr || call_bytes == 0) {
        return 0;
    }
    Ring<format::CollectiveEntry>& ring = current->collectives;
    const TickTimes times(*current->header);
    const CommunicatorNames names(*current);
    const uint64_t head = ring.head();
    const uint64_t wanted = std::min({static_cast<uint64_t>(most), ring.slots(), head});
    size_t copied = 0;
    for (uint64_t ticket = head - wanted; ticket != head; ++ticket) {
        format::CollectiveEntry entry;
        if (!ring.copy(ticket, entry)) {
            continue;
        }
        // A program that was built with another header has another size of its own.
        const titan_call call = call_of(*current, names, times, entry, ticket);
        char* const place = reinterpret_cast<char*>(calls) + copied * call_bytes;
        memset(place, 0, call_bytes);
        memcpy(place, &call, std::min(call_bytes, sizeof(call)));
        ++copied;
    }
    return copied;
}

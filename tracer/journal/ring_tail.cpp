#include "ring_tail.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "ring_file.h"

namespace titan::tracer {
namespace {

using format::MarkerEntry;
using format::RegionDescriptor;
using format::RegionKind;

constexpr uint64_t kMostSlots = 1 << 24;
// A slot that is still open when this part of the ring has been written behind it belongs to a thread that is gone.
constexpr uint64_t kAbandonedParts = 4;

bool lies_within(const RegionDescriptor& region, uint64_t file_bytes) {
    return region.stride_bytes != 0 && region.offset_bytes <= file_bytes && region.count != 0 &&
           region.count <= (file_bytes - region.offset_bytes) / region.stride_bytes;
}

}  // namespace

bool RingTail::open(const format::JobProcess& process) {
    *this = RingTail();
    char path[sizeof(process.ring_path)];
    std::memcpy(path, process.ring_path, sizeof(path));
    path[sizeof(path) - 1] = '\0';
    file_ = path[0] == '\0' ? Fd() : open_ring_at(path);
    struct stat status {};
    if (!file_.valid() || fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        read_at(file_.get(), 0, &header_, sizeof(header_)) != sizeof(header_) || header_.magic != format::kRingMagic ||
        header_.major != format::kRingMajor || header_.pid_start_ticks != process.start_ticks) {
        return false;
    }
    const auto file_bytes = static_cast<uint64_t>(status.st_size);
    const auto* const start = reinterpret_cast<const char*>(&header_);
    const auto take_ring = [&](const RegionDescriptor& region, const format::RegionCursor* cursor, size_t entry_bytes,
                               TailRing& ring) {
        if (region.stride_bytes == entry_bytes && lies_within(region, file_bytes) && region.count <= kMostSlots &&
            cursor != nullptr) {
            ring = {region, static_cast<uint64_t>(reinterpret_cast<const char*>(cursor) - start), cursor->head};
        }
    };
    const auto take_table = [&](const RegionDescriptor& region, size_t row_bytes, RegionDescriptor& table) {
        if (region.stride_bytes >= row_bytes && lies_within(region, file_bytes)) {
            table = region;
        }
    };
    format::for_each_region(header_, [&](const RegionDescriptor& region, const format::RegionCursor* cursor) {
        switch (region.kind) {
            case RegionKind::kMarkers: take_ring(region, cursor, sizeof(MarkerEntry), markers_); break;
            case RegionKind::kCollectives: take_ring(region, cursor, sizeof(format::CollectiveEntry), calls_); break;
            case RegionKind::kHealth: take_ring(region, cursor, sizeof(format::HealthEntry), health_); break;
            case RegionKind::kCommunicators:
                take_table(region, sizeof(format::CommunicatorRecord), communicators_);
                break;
            case RegionKind::kStringIndex: take_table(region, sizeof(format::StringRecord), index_); break;
            case RegionKind::kStringHeap: take_table(region, 1, heap_); break;
            case RegionKind::kMarkerSites: take_table(region, sizeof(format::MarkerSiteRecord), sites_); break;
            default: break;
        }
    });
    return markers_.slots() != 0;
}

bool RingTail::holds(const TailRing& ring, uint64_t ticket) {
    uint64_t head = 0;
    return read_at(file_.get(), ring.cursor_offset_bytes, &head, sizeof(head)) == sizeof(head) && head >= ticket &&
           head - ticket <= ring.slots();
}

// Neighbouring slots at once, up to the end of the region.
template <typename Entry>
size_t RingTail::read_slots(const TailRing& ring, uint64_t ticket, Entry* into, size_t most) {
    const uint64_t slot = ticket % ring.slots();
    const auto count = static_cast<size_t>(std::min<uint64_t>(most, ring.slots() - slot));
    return read_at(file_.get(), ring.region.offset_bytes + slot * sizeof(Entry), into, count * sizeof(Entry)) /
           sizeof(Entry);
}

template <typename Entry>
size_t RingTail::read(const TailRing& ring, uint64_t& ticket, Entry* into, size_t most) {
    if (ring.head > ring.slots()) {
        ticket = std::max(ticket, ring.head - ring.slots());
    }
    size_t got = 0;
    while (got < most && ring.fresh(ticket + got) != 0) {
        const uint64_t wanted = std::min<uint64_t>(most - got, ring.fresh(ticket + got));
        const size_t read = read_slots(ring, ticket + got, into + got, wanted);
        size_t complete = 0;
        while (complete < read && into[got + complete].slot_sequence == 2 * (ticket + got + complete) + 2) {
            ++complete;
        }
        got += complete;
        if (complete < read || read == 0) {
            break;
        }
    }
    if (got == 0 && ring.fresh(ticket) > ring.slots() / kAbandonedParts) {
        ++ticket;  // abandoned, or being overwritten
    }
    return got;
}

template size_t RingTail::read(const TailRing&, uint64_t&, MarkerEntry*, size_t);
template size_t RingTail::read(const TailRing&, uint64_t&, format::CollectiveEntry*, size_t);
template size_t RingTail::read(const TailRing&, uint64_t&, format::HealthEntry*, size_t);

template <typename Row>
Row RingTail::row_of(const RegionDescriptor& table, uint64_t row) {
    Row value{};
    if (row >= table.count ||
        read_at(file_.get(), table.offset_bytes + row * table.stride_bytes, &value, sizeof(Row)) != sizeof(Row)) {
        return {};
    }
    return value;
}

size_t RingTail::text(uint32_t id, char* into, size_t capacity_bytes) {
    const auto record = row_of<format::StringRecord>(index_, uint64_t{id} - 1);
    if (record.length_bytes == 0 || record.offset_bytes > heap_.count ||
        record.length_bytes - 1 > heap_.count - record.offset_bytes) {
        return 0;
    }
    const size_t length = std::min<size_t>(record.length_bytes - 1, capacity_bytes);
    return read_at(file_.get(), heap_.offset_bytes + record.offset_bytes, into, length);
}

format::MarkerSiteRecord RingTail::site(uint32_t site) {
    return row_of<format::MarkerSiteRecord>(sites_, uint64_t{site} - 1);
}

format::CommunicatorRecord RingTail::communicator(uint32_t row) {
    return row_of<format::CommunicatorRecord>(communicators_, row);
}

format::MarkerWords RingTail::words() {
    return {this,
            [](void* self, uint32_t id, char* into, size_t capacity_bytes) {
                return static_cast<RingTail*>(self)->text(id, into, capacity_bytes);
            },
            [](void* self, uint32_t site) { return static_cast<RingTail*>(self)->site(site); }};
}

}  // namespace titan::tracer

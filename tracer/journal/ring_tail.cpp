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

bool lies_within(const RegionDescriptor& region, uint64_t file_bytes, uint32_t least_stride_bytes) {
    return region.stride_bytes >= least_stride_bytes && region.offset_bytes <= file_bytes && region.count != 0 &&
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
    format::for_each_region(header_, [&](const RegionDescriptor& region, const format::RegionCursor* cursor) {
        if (region.kind == RegionKind::kMarkers && lies_within(region, file_bytes, sizeof(MarkerEntry)) &&
            region.count <= kMostSlots && cursor != nullptr) {
            markers_ = region;
            slots_ = region.count;
            cursor_offset_bytes_ = static_cast<uint64_t>(reinterpret_cast<const char*>(cursor) - start);
            head_ = cursor->head;
        } else if (region.kind == RegionKind::kStringIndex &&
                   lies_within(region, file_bytes, sizeof(format::StringRecord))) {
            index_ = region;
        } else if (region.kind == RegionKind::kStringHeap && lies_within(region, file_bytes, 1)) {
            heap_ = region;
        } else if (region.kind == RegionKind::kMarkerSites &&
                   lies_within(region, file_bytes, sizeof(format::MarkerSiteRecord))) {
            sites_ = region;
        }
    });
    return slots_ != 0;
}

uint64_t RingTail::read_head() {
    uint64_t head = 0;
    return read_at(file_.get(), cursor_offset_bytes_, &head, sizeof(head)) == sizeof(head) ? head : UINT64_MAX;
}

bool RingTail::holds(uint64_t ticket) {
    const uint64_t head = read_head();
    return head >= ticket && head - ticket <= slots_;
}

// Neighbouring slots at once, up to the end of the region.
size_t RingTail::read_slots(uint64_t ticket, MarkerEntry* into, size_t most) {
    const uint64_t slot = ticket % slots_;
    const auto count = static_cast<size_t>(std::min<uint64_t>(most, slots_ - slot));
    const uint64_t offset_bytes = markers_.offset_bytes + slot * markers_.stride_bytes;
    if (markers_.stride_bytes == sizeof(MarkerEntry)) {
        return read_at(file_.get(), offset_bytes, into, count * sizeof(MarkerEntry)) / sizeof(MarkerEntry);
    }
    return read_at(file_.get(), offset_bytes, into, sizeof(MarkerEntry)) == sizeof(MarkerEntry) ? 1 : 0;
}

size_t RingTail::read_markers(uint64_t& ticket, MarkerEntry* into, size_t most) {
    if (head_ > slots_) {
        ticket = std::max(ticket, head_ - slots_);
    }
    size_t got = 0;
    while (got < most && ticket + got < head_) {
        const size_t read = read_slots(ticket + got, into + got, std::min<uint64_t>(most - got, head_ - ticket - got));
        size_t complete = 0;
        while (complete < read && into[got + complete].slot_sequence == 2 * (ticket + got + complete) + 2) {
            ++complete;
        }
        got += complete;
        if (complete < read || read == 0) {
            break;
        }
    }
    if (got == 0 && ticket < head_ && head_ - ticket > slots_ / kAbandonedParts) {
        ++ticket;  // abandoned, or being overwritten
    }
    return got;
}

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

format::MarkerWords RingTail::words() {
    return {this,
            [](void* self, uint32_t id, char* into, size_t capacity_bytes) {
                return static_cast<RingTail*>(self)->text(id, into, capacity_bytes);
            },
            [](void* self, uint32_t site) { return static_cast<RingTail*>(self)->site(site); }};
}

}  // namespace titan::tracer

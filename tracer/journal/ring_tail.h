// The newest part of a ring file of this node, read and never mapped: what others do to the file cannot hurt. No
// descriptor stays open from one look to the next, because programs close those. cold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "formats/container/journal_writer.h"
#include "formats/layout/job_layout.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// One of the rings in the file.
struct TailRing {
    format::RegionDescriptor region;
    uint64_t cursor_offset_bytes;
    uint64_t head;

    uint64_t slots() const { return region.count; }
    // Handed out since that ticket.
    uint64_t fresh(uint64_t ticket) const { return head > ticket ? head - ticket : 0; }
    bool is_half_fresh(uint64_t ticket) const { return fresh(ticket) >= slots() / 2 && slots() != 0; }
};

class RingTail {
  public:
    // False: it is gone, or is not the ring of that process.
    bool open(const format::JobProcess& process);

    const format::RingHeader& header() const { return header_; }
    const TailRing& markers() const { return markers_; }
    const TailRing& calls() const { return calls_; }
    const TailRing& health() const { return health_; }

    // Copies complete entries from `ticket` on, and moves `ticket` forward to the first of them: those before are
    // overwritten. Ends at one that is still being written; of one that stays so nobody waits for the end.
    template <typename Entry>
    size_t read(const TailRing& ring, uint64_t& ticket, Entry* into, size_t most);
    // Whether all that was read since `ticket` was handed out still is what it was: names included.
    bool holds(const TailRing& ring, uint64_t ticket);

    format::MarkerWords words();
    // Zeros where there is none.
    format::CommunicatorRecord communicator(uint32_t row);

  private:
    template <typename Entry>
    size_t read_slots(const TailRing& ring, uint64_t ticket, Entry* into, size_t most);
    size_t text(uint32_t id, char* into, size_t capacity_bytes);
    format::MarkerSiteRecord site(uint32_t site);
    template <typename Row>
    Row row_of(const format::RegionDescriptor& table, uint64_t row);

    Fd file_;
    format::RingHeader header_{};
    TailRing markers_{};
    TailRing calls_{};
    TailRing health_{};
    format::RegionDescriptor index_{};
    format::RegionDescriptor heap_{};
    format::RegionDescriptor sites_{};
    format::RegionDescriptor communicators_{};
};

}  // namespace titan::tracer

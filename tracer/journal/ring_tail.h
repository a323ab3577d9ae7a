// The newest part of a ring of this node, read from its file and never mapped: what others do to the file cannot hurt.
// No descriptor stays open from one look to the next, because programs close those. cold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "formats/container/journal_writer.h"
#include "formats/layout/job_layout.h"
#include "formats/layout/ring_layout.h"

namespace titan::tracer {

class RingTail {
  public:
    // False: it is gone, or is not the ring of that process.
    bool open(const format::JobProcess& process);

    const format::RingHeader& header() const { return header_; }
    uint64_t head() const { return head_; }    // of the markers
    uint64_t slots() const { return slots_; }  // 0: it has none that we can read

    // Copies complete markers from `ticket` on, and moves `ticket` forward to the first of them: those before are
    // overwritten. Ends at one that is still being written; of one that stays so nobody waits for the end.
    size_t read_markers(uint64_t& ticket, format::MarkerEntry* into, size_t most);
    // Whether all that was read since `ticket` was handed out still is what it was: names included.
    bool holds(uint64_t ticket);

    format::MarkerWords words();

  private:
    uint64_t read_head();
    size_t read_slots(uint64_t ticket, format::MarkerEntry* into, size_t most);
    size_t text(uint32_t id, char* into, size_t capacity_bytes);
    format::MarkerSiteRecord site(uint32_t site);
    template <typename Row>
    Row row_of(const format::RegionDescriptor& table, uint64_t row);

    Fd file_;
    format::RingHeader header_{};
    format::RegionDescriptor markers_{};
    format::RegionDescriptor index_{};
    format::RegionDescriptor heap_{};
    format::RegionDescriptor sites_{};
    uint64_t cursor_offset_bytes_ = 0;
    uint64_t head_ = 0;
    uint64_t slots_ = 0;
};

}  // namespace titan::tracer

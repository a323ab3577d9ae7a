// Slices of one track side by side where they overlap without one lying in the other: tasks of one thread, calls of one
// stream that were seen late. Each lane then nests, as viewers want.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace titan::analyzer {

struct Slice {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint32_t track = 0;
    uint32_t details_bytes = 0;
    uint64_t details = 0;  // place of the first of its bytes
    bool joined = false;   // with slices of other ranks
};

class LaneVisitor {
  public:
    virtual ~LaneVisitor() = default;
    virtual void begin(size_t lane, const Slice& slice) = 0;
    virtual void end(size_t lane, int64_t at_ns) = 0;
};

// Slices of one track, sorted by begin, the longer first. In each lane, begins and ends come in the order of time.
void visit_lanes(std::span<const Slice> slices, LaneVisitor& visitor);

}  // namespace titan::analyzer

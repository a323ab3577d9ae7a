// Schedules the nodes of a large job on the shared file system: what each node may do at any time, not all do at once.
#pragma once

#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::tracer {

// What makes a rank dump comes on all nodes at the same moment, and those in it have time.
constexpr bool comes_everywhere(format::DumpReason cause) {
    return cause == format::DumpReason::kTimeout || cause == format::DumpReason::kStandstill;
}

inline constexpr uint64_t kLookPauseNs = 2'000'000'000;
inline constexpr uint64_t kTurnNs = 5'000'000;  // per node
inline constexpr uint64_t kLastTurnNs = 15'000'000'000;

// The pause of a node between two looks for another node's request, in a job of that many ranks, of which some are
// here.
uint64_t look_pause_ns(int32_t world_size, uint32_t ranks_here);

// The time that the node of `rank` waits before it writes when all nodes have seen a timeout at the same moment; 0 if
// the rank is unknown.
uint64_t turn_ns(int32_t rank, int32_t world_size, uint32_t ranks_here);

}  // namespace titan::tracer

// How the nodes of a large job take turns at the shared file system: what each may do at any time, all do not do at
// once.
#pragma once

#include <cstdint>

namespace titan::tracer {

inline constexpr uint64_t kLookPauseNs = 2'000'000'000;
inline constexpr uint64_t kTurnNs = 5'000'000;  // of one node
inline constexpr uint64_t kLastTurnNs = 15'000'000'000;

// How long a node pauses between two looks for another node's request, in a job of that many ranks, of which some are
// here.
uint64_t look_pause_ns(int32_t world_size, uint32_t ranks_here);

// How long the node of `rank` waits, after all have seen a timeout at the same moment, before it writes; 0 where the
// rank is not known.
uint64_t turn_ns(int32_t rank, int32_t world_size, uint32_t ranks_here);

}  // namespace titan::tracer

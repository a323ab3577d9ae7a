#include "turns.h"

#include <algorithm>

namespace titan::tracer {
namespace {

uint64_t nodes_of(uint64_t ranks, uint32_t ranks_here) { return ranks / std::max<uint32_t>(ranks_here, 1); }

}  // namespace

uint64_t look_pause_ns(int32_t world_size, uint32_t ranks_here) {
    const auto ranks = static_cast<uint64_t>(std::max(world_size, 0));
    return std::max(kLookPauseNs, nodes_of(ranks, ranks_here) * kTurnNs);
}

uint64_t turn_ns(int32_t rank, int32_t world_size, uint32_t ranks_here) {
    if (rank < 0 || rank >= world_size) {
        return 0;
    }
    const uint64_t nodes = nodes_of(static_cast<uint64_t>(world_size), ranks_here);
    return nodes_of(static_cast<uint64_t>(rank), ranks_here) *
           std::min(kTurnNs, kLastTurnNs / std::max<uint64_t>(nodes, 1));
}

}  // namespace titan::tracer

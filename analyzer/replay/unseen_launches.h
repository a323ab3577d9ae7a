// When calls came and ended of which the GPU was not watched, because one of several launches is.
#pragma once

#include <cstdint>
#include <vector>

#include "node_chains.h"
#include "step_graph.h"

namespace titan::analyzer {

// By rank and step, and behind the last one: when it began, by moments at which the host had waited for the GPU.
// Empty for a rank without such.
using StepMoments = std::vector<std::vector<int64_t>>;
// The moments of one rank. Steps between two such moments are equally long.
std::vector<int64_t> moments_of(const Process& process, const StepGraph& graph);

// Fills in arrivals and ends that nobody saw, from where in a step they usually are: each slot is watched in some
// steps. True if hardly any is left.
bool fill_unseen(const StepMoments& moments, const StepGraph& graph, std::vector<RawNode>& raw);

}  // namespace titan::analyzer

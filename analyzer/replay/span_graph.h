// The graph of a job of which no call is on record (Gloo, MPI, JAX on CPUs): its ranks meet once a step, where they
// leave a span at the same moment that they come to at different ones. Of hosts alone: what a GPU hides is no cause.
#pragma once

#include <optional>

#include "step_graph.h"

namespace titan::analyzer {

// None where fewer than two ranks mark steps and spans, or where they meet in no span.
std::optional<StepGraph> span_graph(const Run& run, const Clocks& clocks);

}  // namespace titan::analyzer

// The graph of a job of which no call is on record (Gloo, MPI, JAX on CPUs): its ranks meet once a step, where they
// leave a span at the same moment that they come to at different ones. Of hosts alone: what a GPU hides is no cause.
#pragma once

#include <optional>

#include "step_graph.h"

namespace titan::analyzer {

// How a rank was in the one meeting of a step, on its own host's clock.
struct Stay {
    int64_t came_ns = 0;
    int64_t left_ns = 0;
    int64_t called_ns = 0;  // its host was there
};

// By rank and step.
using Stays = std::vector<std::vector<Stay>>;

// Adds the process to the graph of ranks that meet once a step, if it marks steps.
void add_marked_steps(const Run& run, uint32_t process, StepGraph& graph);
// The steps that all of these have; false where they are too few, or no steps to speak of.
bool choose_common_steps(const Run& run, StepGraph& graph);
// Fills the graph: a node and a meeting for each step.
void meet_once_a_step(const Run& run, const Clocks& clocks, const Stays& stays, StepGraph& graph);

// None where fewer than two ranks mark steps and spans, or where they meet in no span.
std::optional<StepGraph> span_graph(const Run& run, const Clocks& clocks);

}  // namespace titan::analyzer

// Plays a graph of steps with other durations. A pure function of them.
#pragma once

#include <vector>

#include "step_graph.h"

namespace titan::analyzer {

// Durations by node, and of what is behind the last one by rank: those of the graph, or edited.
struct Durations {
    std::vector<float> own_ns;
    std::vector<float> run_ns;
    std::vector<double> tail_ns;
};
Durations recorded_durations(const StepGraph& graph);

// How long a step takes then, in nanoseconds: the mean over ranks and steps.
double replay(const StepGraph& graph, const Durations& durations);

// How long each step takes then, from the end of the last call of the step before to that of its own: the mean over
// ranks. Of the last one what is behind its calls is missing.
std::vector<double> replayed_steps(const StepGraph& graph, const Durations& durations);

}  // namespace titan::analyzer

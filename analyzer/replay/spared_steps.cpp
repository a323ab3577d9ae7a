#include "spared_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/words.h"
#include "replay.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSpared = 8;      // steps
constexpr double kSure = 0.015;         // of a step: standard error of the mean
constexpr double kLeastOfPlayed = 0.2;  // of what the replay tells: where it is less, something else became faster then

// As played, scaled so that their mean is the recorded one.
std::vector<double> lengths_of(const StepGraph& graph) {
    const Durations recorded = recorded_durations(graph);
    const double replayed_ns = replay(graph, recorded);
    std::vector<double> lengths_ns = replayed_steps(graph, recorded);
    for (double& length_ns : lengths_ns) {
        length_ns *= replayed_ns > 0 ? graph.step_ns / replayed_ns : 0;
    }
    return lengths_ns;
}

struct Mean {
    double ns = 0;
    double error_ns = 0;  // standard error
};

Mean mean_of(const std::vector<double>& lengths_ns, const std::vector<uint32_t>& steps) {
    const auto count = static_cast<double>(steps.size());
    double sum_ns = 0, squares = 0;
    for (const uint32_t step : steps) {
        sum_ns += lengths_ns[step];
        squares += lengths_ns[step] * lengths_ns[step];
    }
    const double mean_ns = sum_ns / count;
    return {mean_ns, std::sqrt(std::max(0.0, squares / count - mean_ns * mean_ns) / (count - 1))};
}

// Indexes of the graph's steps: those before it began, or between its strokes.
std::vector<uint32_t> steps_spared_by(const SlowCause& cause, const StepGraph& graph) {
    // Hosts alone tell only of many steps in a row how long they were: they need not wait for their GPUs in each.
    std::vector<uint32_t> spared = graph.by_device ? cause.spared_steps : std::vector<uint32_t>();
    if (cause.since_step) {
        spared.resize(static_cast<size_t>(std::clamp<int64_t>(*cause.since_step - graph.first_step, 0, graph.steps)));
        std::iota(spared.begin(), spared.end(), 0);
    }
    std::erase(spared, 0);                // slow in each job
    std::erase(spared, graph.steps - 1);  // its end is not on record
    return spared;
}

}  // namespace

void measure_by_spared_steps(const StepGraph& graph, SlowCauses& all) {
    const auto costliest = std::max_element(all.causes.begin(), all.causes.end(),
                                            [](const auto& a, const auto& b) { return a.cost_ns < b.cost_ns; });
    if (costliest == all.causes.end()) {
        return;
    }
    const std::vector<uint32_t> spared = steps_spared_by(*costliest, graph);
    if (spared.size() < kLeastSpared) {
        return;
    }
    const Mean without = mean_of(lengths_of(graph), spared);
    const double cost_ns = all.step_ns - without.ns;
    if (without.error_ns > kSure * without.ns || cost_ns < kLeastOfPlayed * costliest->cost_ns) {
        return;
    }
    costliest->cost_ns = cost_ns;
    costliest->evidence.push_back(fmt::format("the {} {} take {} each in the mean", counted(spared.size(), "step"),
                                              costliest->since_step ? "before" : "without it",
                                              fine_duration_text(without.ns)));
}

}  // namespace titan::analyzer

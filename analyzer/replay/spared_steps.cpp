#include "spared_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "host/words.h"
#include "replay.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSpared = 8;      // steps
constexpr size_t kLeastRows = 4;        // of them, for a mean and its error
constexpr double kSure = 0.015;         // of a step: standard error of the mean
constexpr double kMostOfOthers = 0.5;   // of its cost: what another that comes and goes may cost
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

// Of the means of so many steps in a row; none where these are too few.
std::optional<Mean> mean_of_rows(const std::vector<double>& lengths_ns, const std::vector<uint32_t>& steps,
                                 size_t row) {
    std::vector<double> means;
    for (size_t first = 0, end = 0; first < steps.size(); first = end) {
        double sum_ns = 0;
        while (end < steps.size() && end < first + row && steps[end] == steps[first] + (end - first)) {
            sum_ns += lengths_ns[steps[end++]];
        }
        if (end - first == row) {
            means.push_back(sum_ns / static_cast<double>(row));
        }
    }
    if (means.size() < kLeastRows) {
        return std::nullopt;
    }
    const auto count = static_cast<double>(means.size());
    const double mean_ns = std::accumulate(means.begin(), means.end(), 0.0) / count;
    double squares = 0;
    for (const double one_ns : means) {
        squares += (one_ns - mean_ns) * (one_ns - mean_ns);
    }
    return Mean{mean_ns, std::sqrt(squares / (count - 1) / count)};
}

// A host that waits for its GPU in each fifth step alone has four short ones and a long one: the mean of five in a row
// is the length of a step.
Mean surest_mean(const std::vector<double>& lengths_ns, const std::vector<uint32_t>& steps) {
    Mean surest{0, 1e300};
    for (size_t row = 1; row * kLeastRows <= steps.size(); ++row) {
        const std::optional<Mean> mean = mean_of_rows(lengths_ns, steps, row);
        surest = mean && mean->error_ns < surest.error_ns ? *mean : surest;
    }
    return surest;
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

// No other that comes and goes costs so much that its steps matter.
bool is_alone(const SlowCause& cause, const SlowCauses& all, const StepGraph& graph) {
    return std::none_of(all.causes.begin(), all.causes.end(), [&](const SlowCause& other) {
        return &other != &cause && other.cost_ns > kMostOfOthers * cause.cost_ns &&
               !steps_spared_by(other, graph).empty();
    });
}

}  // namespace

void measure_by_spared_steps(const StepGraph& graph, SlowCauses& all) {
    const auto costliest = std::max_element(all.causes.begin(), all.causes.end(),
                                            [](const auto& a, const auto& b) { return a.cost_ns < b.cost_ns; });
    if (costliest == all.causes.end()) {
        return;
    }
    const std::vector<uint32_t> spared = steps_spared_by(*costliest, graph);
    if (spared.size() < kLeastSpared || !is_alone(*costliest, all, graph)) {
        return;
    }
    const Mean without = surest_mean(lengths_of(graph), spared);
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

#include "spared_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/words.h"
#include "replay.h"

namespace titan::analyzer {
namespace {

constexpr size_t kLeastSpared = 8;      // steps without the cause, between others
constexpr size_t kLeastBefore = 4;      // steps in a row before it began
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

    bool is_sure() const { return ns > 0 && error_ns <= kSure * ns; }
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

// Indexes of the graph's steps between those that the cause strikes. The first is slow in each job, and the end of the
// last is not on record.
std::vector<uint32_t> steps_without(const SlowCause& cause, const StepGraph& graph) {
    // Hosts alone tell only of many steps in a row how long they were: they need not wait for their GPUs in each.
    std::vector<uint32_t> spared = graph.by_device ? cause.spared_steps : std::vector<uint32_t>();
    std::erase(spared, 0);
    std::erase(spared, graph.steps - 1);
    return spared;
}

// The longest stretch of steps before `since` that are all as long: what began before them is in them, too.
std::vector<uint32_t> steps_before(const std::vector<double>& lengths_ns, uint32_t since) {
    std::vector<uint32_t> steps;
    size_t longest = 0;
    while (since-- > 1) {
        steps.push_back(since);
        longest = steps.size() >= kLeastBefore && mean_of(lengths_ns, steps).is_sure() ? steps.size() : longest;
    }
    steps.resize(longest);
    return steps;
}

struct Measured {
    double cost_ns = 0;  // of each step in the mean
    Mean without;
    size_t steps = 0;  // without the cause
};

Measured measure(const SlowCause& cause, const SlowCauses& all, const StepGraph& graph) {
    if (!cause.since_step) {
        const std::vector<uint32_t> spared = steps_without(cause, graph);
        const Mean without = spared.size() < kLeastSpared ? Mean() : mean_of(lengths_of(graph), spared);
        return {all.step_ns - without.ns, without, without.is_sure() ? spared.size() : 0};
    }
    const auto since =
        static_cast<uint32_t>(std::clamp<int64_t>(*cause.since_step - graph.first_step, 0, graph.steps - 1));
    if (since <= kLeastBefore) {
        return {};
    }
    const std::vector<double> lengths_ns = lengths_of(graph);
    const std::vector<uint32_t> before = steps_before(lengths_ns, since);
    if (before.empty()) {
        return {};
    }
    std::vector<uint32_t> struck(graph.steps - since);
    std::iota(struck.begin(), struck.end(), since);
    std::erase(struck, graph.steps - 1);
    if (struck.empty()) {
        return {};
    }
    const double share = static_cast<double>(graph.steps - since) / graph.steps;
    const Mean without = mean_of(lengths_ns, before);
    return {share * (mean_of(lengths_ns, struck).ns - without.ns), without, before.size()};
}

}  // namespace

void measure_by_spared_steps(const StepGraph& graph, SlowCauses& all) {
    const auto costliest = std::max_element(all.causes.begin(), all.causes.end(),
                                            [](const auto& a, const auto& b) { return a.cost_ns < b.cost_ns; });
    if (costliest == all.causes.end()) {
        return;
    }
    const Measured measured = measure(*costliest, all, graph);
    if (measured.steps == 0 || measured.cost_ns < kLeastOfPlayed * costliest->cost_ns) {
        return;
    }
    costliest->cost_ns = measured.cost_ns;
    costliest->evidence.push_back(fmt::format("the {} {} take {} each in the mean", counted(measured.steps, "step"),
                                              costliest->since_step ? "before" : "without it",
                                              fine_duration_text(measured.without.ns)));
}

}  // namespace titan::analyzer

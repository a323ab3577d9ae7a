// What a step takes without a cause, by the steps that it spared.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "spared_steps.h"

namespace {

using namespace titan;
using analyzer::SlowCause;
using analyzer::SlowCauses;
using analyzer::StepGraph;

constexpr uint32_t kStepsPlayed = 40;
constexpr double kNsOfMs = 1e6;

// One rank, which makes one call in each step.
StepGraph graph_of(const std::function<double(uint32_t)>& length_ms) {
    StepGraph graph;
    graph.steps = kStepsPlayed;
    graph.processes = graph.roles = {0};
    graph.begin = {0, kStepsPlayed};
    graph.last = {kStepsPlayed - 1};
    graph.began_ns = graph.tail_ns = {0};
    graph.piece_begin.assign(kStepsPlayed + 1, 0);
    graph.nodes.resize(kStepsPlayed);
    for (uint32_t n = 0; n < kStepsPlayed; ++n) {
        analyzer::StepNode& node = graph.nodes[n];
        node.step = n;
        node.own_ns = static_cast<float>(length_ms(n) * kNsOfMs);
        node.before = n == 0 ? analyzer::kNoIndex : n - 1;
        node.after_end = true;
        graph.order.push_back(n);
        graph.step_ns += static_cast<double>(node.own_ns) / kStepsPlayed;
    }
    return graph;
}

SlowCause since(int64_t step, double cost_ms) {
    SlowCause cause;
    cause.since_step = step;
    cause.cost_ns = cost_ms * kNsOfMs;
    return cause;
}

double without_ms(const StepGraph& graph, std::vector<SlowCause> causes) {
    SlowCauses all;
    all.step_ns = graph.step_ns;
    all.causes = std::move(causes);
    analyzer::measure_by_spared_steps(graph, all);
    CHECK(all.causes.front().evidence.size() == (all.causes.front().cost_ns == 10 * kNsOfMs ? 0 : 1));
    return (all.step_ns - all.causes.front().cost_ns) / kNsOfMs;
}

}  // namespace

TEST_CASE("spared steps: those before it began tell what a step takes without the cause") {
    const StepGraph graph = graph_of([](uint32_t step) { return step == 0 ? 900 : step < 20 ? 100 : 140; });
    CHECK(without_ms(graph, {since(20, 10)}) == doctest::Approx((900 + 39 * 100) / 40));
}

TEST_CASE("spared steps: what began before the cause is not its own") {
    const StepGraph graph = graph_of([](uint32_t step) { return step < 12 ? 100 : step < 16 ? 120 : 200; });
    CHECK(without_ms(graph, {since(16, 10)}) == doctest::Approx(graph.step_ns / kNsOfMs - 80 * 24 / 40));
}

TEST_CASE("spared steps: those between its strokes tell what a step takes without the cause") {
    const StepGraph graph = graph_of([](uint32_t step) { return step % 7 == 3 ? 400 : 100; });
    SlowCause cause;
    cause.cost_ns = 10 * kNsOfMs;
    for (uint32_t step = 0; step < kStepsPlayed; ++step) {
        if (step % 7 != 3 && step % 7 != 4) {
            cause.spared_steps.push_back(step);
        }
    }
    CHECK(without_ms(graph, {cause}) == doctest::Approx(100));
    StepGraph of_hosts = graph;  // which need not wait for their GPUs in each step
    of_hosts.by_device = false;
    CHECK(without_ms(of_hosts, {cause}) == doctest::Approx(graph.step_ns / kNsOfMs - 10));
}

TEST_CASE("spared steps: where they do not tell, the replay counts") {
    const auto slower_since = [](uint32_t from) {
        return graph_of([from](uint32_t step) { return step < from ? 100 : 140; });
    };
    const auto played_ms = [](const StepGraph& graph) { return doctest::Approx(graph.step_ns / kNsOfMs - 10); };
    CHECK(without_ms(slower_since(4), {since(4, 10)}) == played_ms(slower_since(4)));  // too few
    const StepGraph noisy = graph_of([](uint32_t step) { return step * step * 7 % 61 * 4; });
    CHECK(without_ms(noisy, {since(20, 10)}) == played_ms(noisy));
    const StepGraph was_slow = graph_of([](uint32_t step) { return step < 20 ? 139 : 140; });
    CHECK(without_ms(was_slow, {since(20, 10)}) == played_ms(was_slow));
    // One that was always there does not matter.
    SlowCause always;
    always.cost_ns = 8 * kNsOfMs;
    CHECK(without_ms(slower_since(20), {since(20, 10), always}) == doctest::Approx(100));
}

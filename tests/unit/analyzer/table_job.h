// A job that is given as a table: how long each rank works by itself in each step.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cause_search.h"

namespace titan::test {

using analyzer::CauseSearch;
using analyzer::SlowCause;
using analyzer::StepGraph;

inline constexpr double kTableMs = 1e6;
inline constexpr int kTableRanks = 8;
inline constexpr uint32_t kTableSteps = 40;
inline constexpr double kWorkMs = 50;
inline constexpr double kRunMs = 2;

using WorkMs = std::function<double(int rank, uint32_t step)>;

// A job whose ranks work, and then meet in one all_reduce per step.
struct TableJob {
    explicit TableJob(const WorkMs& work_ms, bool hosts_are_late = true, uint32_t steps = kTableSteps) {
        graph.steps = steps;
        graph.step_ns = (kWorkMs + kRunMs) * kTableMs;
        graph.roles.assign(kTableRanks, 0);
        graph.began_ns.assign(kTableRanks, 0);
        graph.tail_ns.assign(kTableRanks, 0);
        graph.known_ns.assign(kTableRanks, 1000);
        graph.carried_ns.assign(kTableRanks * steps, 0);
        graph.meeting_size.assign(steps, kTableRanks);
        graph.meeting_route.assign(steps, 0);
        graph.routes = {{0, -1, -1, format::OpKind::kAllReduce, 20}};
        for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
            run.processes.emplace_back().rank = static_cast<int>(rank);
            run.processes.back().host = "node-0";
            graph.processes.push_back(rank);
            graph.begin.push_back(rank * steps);
            graph.last.push_back((rank + 1) * steps - 1);
            for (uint32_t step = 0; step < steps; ++step) {
                const uint32_t n = rank * steps + step;
                analyzer::StepNode node;
                node.own_ns = static_cast<float>(work_ms(static_cast<int>(rank), step) * kTableMs);
                node.run_ns = kRunMs * kTableMs;
                node.has_end = true;
                node.step = step;
                node.before = step == 0 ? format::kNoIndex : n - 1;
                node.after_end = step != 0;
                node.behind_ns = hosts_are_late ? node.own_ns : 0;
                node.host_late = hosts_are_late && static_cast<double>(node.own_ns) > kWorkMs * kTableMs;
                graph.nodes.push_back(node);
                graph.piece_begin.push_back(n);
                graph.pieces.push_back(step);
            }
        }
        graph.begin.push_back(kTableRanks * steps);
        graph.piece_begin.push_back(kTableRanks * steps);
        for (uint32_t step = 0; step < steps; ++step) {
            for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
                graph.order.push_back(rank * steps + step);
            }
        }
        graph.step_ns = replay(graph, recorded_durations(graph));
    }

    std::vector<SlowCause> causes_by(void (*find)(CauseSearch&)) const {
        CauseSearch search(run, graph);
        find(search);
        return search.causes;
    }

    analyzer::Run run;
    StepGraph graph;
};

// The same in two groups of four ranks: so long the all_reduce of each takes.
inline TableJob halved(const std::array<double, 2>& run_ms) {
    TableJob job([](int, uint32_t) { return kWorkMs; });
    StepGraph& graph = job.graph;
    graph.routes.push_back(graph.routes.front());
    graph.routes.back().communicator = 1;
    graph.meeting_size.assign(size_t{2} * kTableSteps, kTableRanks / 2);
    graph.meeting_route.clear();
    for (uint32_t step = 0; step < kTableSteps; ++step) {
        graph.meeting_route.insert(graph.meeting_route.end(), {0, 1});
    }
    job.run.communicators.resize(2);
    for (uint32_t rank = 0; rank < kTableRanks; ++rank) {
        const uint32_t group = rank / (kTableRanks / 2);
        job.run.communicators[group].size = kTableRanks / 2;
        job.run.communicators[group].members.push_back({rank, 0});
        job.run.processes[rank].members.emplace_back().global_rank = static_cast<int>(rank);
        for (uint32_t step = 0; step < kTableSteps; ++step) {
            const uint32_t n = graph.begin[rank] + step;
            graph.pieces[n] = 2 * step + group;
            graph.nodes[n].run_ns = static_cast<float>(run_ms[group] * kTableMs);
        }
    }
    graph.step_ns = replay(graph, recorded_durations(graph));
    return job;
}

}  // namespace titan::test

#include "span_graph.h"

#include <algorithm>
#include <map>

#include "host/words.h"
#include "node_times.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kFewestSteps = 12;
constexpr int64_t kMostNumbers = 8192;  // of steps: numbers that lie so far apart count something else
constexpr double kLeastApartNs = 1e6;   // ranks come to the span so far apart, in the middle of their steps
constexpr double kTimesAsClose = 4;     // and leave it so much closer

bool is_in_all_steps(const Stays& stays) {
    return std::ranges::all_of(stays, [](const std::vector<Stay>& of_rank) {
        return std::ranges::all_of(of_rank, [](const Stay& stay) { return stay.left_ns != 0; });
    });
}

class SpanGraphBuilder {
  public:
    SpanGraphBuilder(const Run& run, const Clocks& clocks) : run_(run), clocks_(clocks) {}

    std::optional<StepGraph> build() {
        if (!choose_steps()) {
            return std::nullopt;
        }
        find_stays();
        const Stays* const stays = choose_span();
        if (stays == nullptr) {
            return std::nullopt;
        }
        meet_once_a_step(run_, clocks_, *stays, graph_);
        return std::move(graph_);
    }

  private:
    bool choose_steps() {
        for (uint32_t p = 0; p < run_.processes.size(); ++p) {
            const Process& process = run_.processes[p];
            // For ranks that call NCCL the calls show it (step_graph.h), and a host that waits for a GPU is not late.
            if (!process.members.empty() || process.gpu_progress) {
                return false;
            }
            if (!process.step_spans.empty()) {
                add_marked_steps(run_, p, graph_);
            }
        }
        return choose_common_steps(run_, graph_);
    }

    void find_stays() {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            const uint32_t p = graph_.processes[r];
            const Process& process = run_.processes[p];
            for (const StepProfile& step : process.steps) {
                const int64_t at = int64_t{step.step} - graph_.first_step;
                for (uint32_t i = 0; i < step.span_count && at >= 0 && at < graph_.steps; ++i) {
                    const SpanTime& span = process.step_spans[step.first_span + i];
                    Stays& stays = stays_[process.text(span.name)];
                    stays.resize(graph_.ranks(), std::vector<Stay>(graph_.steps));
                    const int64_t left_ns = step.begin_ns + span.ended_ns;
                    stays[r][static_cast<size_t>(at)] = {left_ns - span.busy_ns, left_ns, left_ns - span.busy_ns};
                }
            }
        }
    }

    // The span that all ranks have in each step and leave closest together.
    const Stays* choose_span() {
        const Stays* chosen = nullptr;
        double closest_ns = 1e300;
        for (const auto& [name, stays] : stays_) {
            if (!is_in_all_steps(stays)) {
                continue;
            }
            const double came_ns = typical_spread_ns(stays, &Stay::came_ns);
            const double left_ns = typical_spread_ns(stays, &Stay::left_ns);
            if (came_ns > kLeastApartNs && left_ns * kTimesAsClose < came_ns && left_ns < closest_ns) {
                closest_ns = left_ns;
                graph_.meets_in = "span " + printable(name);
                chosen = &stays;
            }
        }
        return chosen;
    }

    // How far apart ranks are, in the median of the steps.
    double typical_spread_ns(const Stays& stays, int64_t Stay::*moment) const {
        std::vector<double> spreads_ns;
        for (size_t step = 0; step < graph_.steps; ++step) {
            std::vector<int64_t> moments_ns;
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                moments_ns.push_back(clocks_.common_ns(graph_.processes[r], stays[r][step].*moment));
            }
            const auto [first, last] = std::ranges::minmax(moments_ns);
            spreads_ns.push_back(static_cast<double>(last - first));
        }
        return median_of(std::move(spreads_ns));
    }

    const Run& run_;
    const Clocks& clocks_;
    StepGraph graph_;
    std::map<std::string, Stays> stays_;  // by name of the span
};

}  // namespace

void add_marked_steps(const Run& run, uint32_t process, StepGraph& graph) {
    if (!run.processes[process].steps.empty() && !run.processes[process].steps_by_period) {
        graph.processes.push_back(process);
    }
}

bool choose_common_steps(const Run& run, StepGraph& graph) {
    int32_t first = INT32_MIN;
    int32_t last = INT32_MAX;
    for (const uint32_t p : graph.processes) {
        first = std::max(first, run.processes[p].steps.front().step);
        last = std::min(last, run.processes[p].steps.back().step);
    }
    const int64_t steps = graph.ranks() < 2 ? 0 : int64_t{last} - first + 1;
    graph.first_step = first;
    graph.steps = static_cast<uint32_t>(std::clamp<int64_t>(steps, 0, kMostNumbers));
    return steps >= kFewestSteps && steps <= kMostNumbers;
}

void meet_once_a_step(const Run& run, const Clocks& clocks, const Stays& all, StepGraph& graph) {
    graph.by_device = false;
    graph.routes.emplace_back();
    graph.meeting_route.assign(graph.steps, 0);
    graph.meeting_size.assign(graph.steps, static_cast<uint32_t>(graph.ranks()));
    graph.roles.assign(graph.ranks(), 0);
    graph.known_ns.assign(graph.ranks(), 0);
    std::vector<RawNode> raw;
    for (const std::vector<Stay>& stays : all) {
        graph.begin.push_back(static_cast<uint32_t>(raw.size()));
        for (uint32_t s = 0; s < graph.steps; ++s) {
            raw.push_back({stays[s].called_ns, stays[s].came_ns, stays[s].left_ns, s, 0});
            graph.nodes.emplace_back().step = s;
            graph.piece_begin.push_back(s + graph.begin.back());
            graph.pieces.push_back(s);
        }
    }
    graph.begin.push_back(static_cast<uint32_t>(raw.size()));
    graph.piece_begin.push_back(graph.begin.back());
    std::vector<std::vector<uint32_t>> came;
    chain_nodes(raw, came, graph);
    fill_times(run, clocks, raw, came, graph);
    measure_steps(run, graph);
}

std::optional<StepGraph> span_graph(const Run& run, const Clocks& clocks) {
    return SpanGraphBuilder(run, clocks).build();
}

}  // namespace titan::analyzer

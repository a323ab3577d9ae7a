#include "span_graph.h"

#include <algorithm>
#include <map>

#include "host/words.h"
#include "robust.h"

namespace titan::analyzer {
namespace {

constexpr int64_t kFewestSteps = 12;
constexpr int64_t kMostNumbers = 8192;  // of steps: numbers that lie so far apart count something else
constexpr double kLeastApartNs = 1e6;   // ranks come to the span so far apart, in the middle of their steps
constexpr double kTimesAsClose = 4;     // and leave it so much closer

// A span of a step of a rank, on one clock.
struct Stay {
    double came_ns = 0;
    double left_ns = 0;

    bool known() const { return left_ns != 0; }
};

// By rank and step.
using Stays = std::vector<std::vector<Stay>>;

bool is_in_all_steps(const Stays& stays) {
    return std::all_of(stays.begin(), stays.end(), [](const std::vector<Stay>& of_rank) {
        return std::all_of(of_rank.begin(), of_rank.end(), [](const Stay& stay) { return stay.known(); });
    });
}

// How far apart ranks are, in the median of the steps.
double typical_spread_ns(const Stays& stays, double Stay::*moment) {
    std::vector<double> spreads_ns;
    for (size_t step = 0; step < stays.front().size(); ++step) {
        const auto [first, last] = std::minmax_element(
            stays.begin(), stays.end(),
            [&](const std::vector<Stay>& a, const std::vector<Stay>& b) { return a[step].*moment < b[step].*moment; });
        spreads_ns.push_back((*last)[step].*moment - (*first)[step].*moment);
    }
    return median_of(std::move(spreads_ns));
}

class SpanGraphBuilder {
  public:
    SpanGraphBuilder(const Run& run, const Clocks& clocks) : run_(run), clocks_(clocks) {}

    std::optional<StepGraph> build() {
        if (!choose_steps()) {
            return std::nullopt;
        }
        find_stays();
        if (!choose_span()) {
            return std::nullopt;
        }
        fill();
        return std::move(graph_);
    }

  private:
    bool choose_steps() {
        int32_t first = INT32_MIN;
        int32_t last = INT32_MAX;
        for (uint32_t p = 0; p < run_.processes.size(); ++p) {
            const Process& process = run_.processes[p];
            // For ranks that call NCCL the calls show it (step_graph.h), and a host that waits for a GPU is not late.
            if (!process.members.empty() || process.gpu_progress) {
                return false;
            }
            if (process.steps.empty() || process.steps_by_period || process.step_spans.empty()) {
                continue;
            }
            graph_.processes.push_back(p);
            first = std::max(first, process.steps.front().step);
            last = std::min(last, process.steps.back().step);
        }
        const int64_t steps = graph_.ranks() < 2 ? 0 : int64_t{last} - first + 1;
        graph_.first_step = first;
        graph_.steps = static_cast<uint32_t>(std::clamp<int64_t>(steps, 0, kMostNumbers));
        return steps >= kFewestSteps && steps <= kMostNumbers;
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
                    const auto left_ns = static_cast<double>(clocks_.common_ns(p, step.begin_ns + span.ended_ns));
                    stays[r][static_cast<size_t>(at)] = {left_ns - static_cast<double>(span.busy_ns), left_ns};
                }
            }
        }
    }

    // The span that all ranks have in each step and leave closest together.
    bool choose_span() {
        double closest_ns = 1e300;
        for (auto& [name, stays] : stays_) {
            if (!is_in_all_steps(stays)) {
                continue;
            }
            const double came_ns = typical_spread_ns(stays, &Stay::came_ns);
            const double left_ns = typical_spread_ns(stays, &Stay::left_ns);
            if (came_ns > kLeastApartNs && left_ns * kTimesAsClose < came_ns && left_ns < closest_ns) {
                closest_ns = left_ns;
                graph_.meets_in = printable(name);
                chosen_ = &stays;
            }
        }
        return chosen_ != nullptr;
    }

    // One node a step, and one meeting.
    void fill() {
        graph_.by_device = false;
        graph_.routes.emplace_back();
        graph_.meeting_route.assign(graph_.steps, 0);
        graph_.meeting_size.assign(graph_.steps, static_cast<uint32_t>(graph_.ranks()));
        std::vector<double> last_ns(graph_.steps, 0);
        for (const std::vector<Stay>& stays : *chosen_) {
            for (size_t s = 0; s < graph_.steps; ++s) {
                last_ns[s] = std::max(last_ns[s], stays[s].came_ns);
            }
        }
        double sum_ns = 0;
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            const uint32_t p = graph_.processes[r];
            const Process& process = run_.processes[p];
            const StepProfile& first = *process.profile_of(graph_.first_step);
            const StepProfile& last = *process.profile_of(graph_.first_step + static_cast<int32_t>(graph_.steps) - 1);
            const auto began_ns = static_cast<double>(clocks_.common_ns(p, first.begin_ns));
            const auto ended_ns = static_cast<double>(clocks_.common_ns(p, last.end_ns));
            graph_.roles.push_back(0);
            graph_.known_ns.push_back(0);
            graph_.begin.push_back(static_cast<uint32_t>(graph_.nodes.size()));
            graph_.began_ns.push_back(began_ns);
            double since_ns = began_ns;
            for (uint32_t s = 0; s < graph_.steps; ++s) {
                const Stay& stay = (*chosen_)[r][s];
                StepNode& node = graph_.nodes.emplace_back();
                node.own_ns = static_cast<float>(stay.came_ns - since_ns);
                node.run_ns = static_cast<float>(std::max(0.0, stay.left_ns - last_ns[s]));
                node.step = s;
                node.before = s == 0 ? kNoIndex : static_cast<uint32_t>(graph_.nodes.size()) - 2;
                node.behind_ns = std::max(0.0F, node.own_ns);
                node.after_end = node.has_end = node.host_late = true;
                graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
                graph_.pieces.push_back(s);
                graph_.carried_ns.push_back(behind_ns(process, s, stay, p));
                since_ns = stay.left_ns;
            }
            graph_.last.push_back(static_cast<uint32_t>(graph_.nodes.size()) - 1);
            graph_.tail_ns.push_back(std::max(0.0, ended_ns - since_ns));
            sum_ns += (ended_ns - began_ns) / graph_.steps;
        }
        graph_.begin.push_back(static_cast<uint32_t>(graph_.nodes.size()));
        graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
        graph_.step_ns = sum_ns / static_cast<double>(graph_.ranks());
        for (uint32_t s = 0; s < graph_.steps; ++s) {
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                graph_.order.push_back(graph_.begin[r] + s);
            }
        }
    }

    // From where ranks meet to the end of the step.
    float behind_ns(const Process& process, uint32_t step, const Stay& stay, uint32_t index) const {
        const StepProfile& profile = *process.profile_of(graph_.first_step + static_cast<int32_t>(step));
        const auto ended_ns = static_cast<double>(clocks_.common_ns(index, profile.end_ns));
        return static_cast<float>(std::max(0.0, ended_ns - stay.left_ns));
    }

    const Run& run_;
    const Clocks& clocks_;
    StepGraph graph_;
    std::map<std::string, Stays> stays_;  // by name of the span
    const Stays* chosen_ = nullptr;
};

}  // namespace

std::optional<StepGraph> span_graph(const Run& run, const Clocks& clocks) {
    return SpanGraphBuilder(run, clocks).build();
}

}  // namespace titan::analyzer

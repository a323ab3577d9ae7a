#include "step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "collective_instances.h"
#include "group_words.h"
#include "host/words.h"
#include "meetings.h"
#include "node_times.h"
#include "robust.h"
#include "same_work.h"
#include "unseen_launches.h"
#include "whole_steps.h"

namespace titan::analyzer {
namespace {

constexpr uint32_t kLeastSteps = 4;
constexpr int64_t kMostSteps = 8192;        // numbers that lie so far apart count something else
constexpr int64_t kFilledInNs = 2'000'000;  // how exact moments are that nobody saw
constexpr double kFilledInShare = 0.02;     // of a step, likewise
constexpr double kWatched = 0.95;           // share of a step's calls that were seen to end
constexpr size_t kLeastWatched = 8;         // steps
constexpr double kMostlyWatched = 0.5;      // share of all steps: so many in a row are enough by themselves

class GraphBuilder {
  public:
    GraphBuilder(const Run& run, const Clocks& clocks) : run_(run), clocks_(clocks), all_roles_(roles_of(run)) {}

    StepGraph build() {
        if (!choose_steps()) {
            return std::move(graph_);
        }
        graph_.by_streams = graph_.by_device && (graph_.sample == 1 || !graph_.watched.empty());
        std::vector<uint32_t> roles;
        for (const uint32_t process : graph_.processes) {
            orders_.push_back(&run_.processes[process].step_streams);
            roles.push_back(all_roles_[process]);
            graph_.by_streams &= is_order_of_calls(*orders_.back());
        }
        graph_.by_streams &= !one_has_other_work(orders_, roles);
        for (const uint32_t process : graph_.processes) {
            graph_.begin.push_back(static_cast<uint32_t>(raw_.size()));
            graph_.known_ns.push_back(resolution_ns(run_.processes[process]));
            add_process(process);
        }
        graph_.begin.push_back(static_cast<uint32_t>(raw_.size()));
        graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
        if (!fill_nodes()) {
            return std::move(graph_);
        }
        last_ = fill_times(run_, clocks_, raw_, came_, graph_);
        for (const uint32_t process : outside_) {
            add_outside(process);
        }
        measure_steps_by_device();
        return std::move(graph_);
    }

  private:
    bool choose_steps() {
        std::vector<int> without;
        std::vector<int> unmarked;
        int32_t first = INT32_MIN;
        int32_t last = INT32_MAX;
        bool any_moments = false;
        bool any_marked = false;
        std::vector<StepRange> ranges;
        for (const Process& process : run_.processes) {
            any_moments |= process.sees.moments;
            ranges.push_back(process.sees.moments ? whole_steps(process) : StepRange());
            any_marked |= !ranges.back().empty() && !process.steps_by_period;
        }
        for (uint32_t p = 0; p < run_.processes.size(); ++p) {
            const Process& process = run_.processes[p];
            const StepRange steps = ranges[p];
            if (any_marked && process.step < 0) {
                outside_.push_back(p);
            }
            if (steps.empty()) {
                without.push_back(process.rank);
                continue;
            }
            // A period of calls and a step that is marked are two things, and are numbered apart.
            if (any_marked && process.steps_by_period) {
                unmarked.push_back(process.rank);
                continue;
            }
            graph_.processes.push_back(p);
            graph_.by_period |= process.steps_by_period;
            graph_.by_device &= process.gpu_progress;
            graph_.sample = std::max(graph_.sample, process.gpu_sample);
            first = std::max(first, steps.first);
            last = std::min(last, steps.last);
        }
        if (graph_.processes.empty()) {
            graph_.why_none = !any_moments && !run_.processes.empty()
                                  ? "these records show how long calls took, but not when they ran: the step without a "
                                    "cause cannot be played"
                                  : "no steps are marked, and the calls repeat in no period: there is no step to "
                                    "speak of";
            return false;
        }
        const int64_t steps = last < first ? 0 : int64_t{last} - first + 1;
        if (steps > kMostSteps) {
            graph_.why_none = "steps are not numbered one by one: those of different ranks cannot be compared";
            return false;
        }
        graph_.steps = static_cast<uint32_t>(steps);
        graph_.first_step = first;
        if (graph_.steps < kLeastSteps) {
            graph_.why_none = fmt::format("{} have fewer than {} steps in common on record: nothing to compare",
                                          counted(graph_.ranks(), "rank"), kLeastSteps);
            return false;
        }
        say_missing(without, "has no whole steps on record", "have no whole steps on record");
        say_missing(unmarked, "marks no steps, others do", "mark no steps, others do");
        say_missing(run_.missing_ranks, "has no record", "have no record");
        choose_watched_steps();
        measure_steps(run_, graph_);
        return true;
    }

    void say_missing(const std::vector<int>& ranks, std::string_view of_one, std::string_view of_several) {
        if (!ranks.empty()) {
            graph_.missing.push_back(fmt::format("{} {}: what others wait for there counts as time of the calls",
                                                 ranks_text(ranks), ranks.size() == 1 ? of_one : of_several));
        }
    }

    // A recorder that keeps to a budget may watch the GPU less in the first steps, or for a while: steps in a row in
    // which it saw all calls end need no times of others. Where steps are marked, and a sample is to be observed, it
    // observes whole steps.
    void choose_watched_steps() {
        if (graph_.sample == 1) {
            return;
        }
        std::vector<size_t> all(graph_.steps, 0), seen(graph_.steps, 0);
        for (const uint32_t p : graph_.processes) {
            for_each_call(run_.processes[p], [&](const CallSignature&, const CallTimes& times, int64_t, uint32_t step) {
                if (step != kNoIndex) {
                    ++all[step];
                    seen[step] += times.ended != kNoIndex ? 1 : 0;
                }
            });
        }
        uint32_t begin = 0, most = 0, in_a_row = 0;
        std::vector<uint32_t> watched;
        for (uint32_t s = 0; s < graph_.steps; ++s) {
            const bool is_watched = static_cast<double>(seen[s]) >= kWatched * static_cast<double>(all[s]);
            in_a_row = is_watched ? in_a_row + 1 : 0;
            if (is_watched) {
                watched.push_back(s);
            }
            if (in_a_row > most) {
                most = in_a_row;
                begin = s + 1 - in_a_row;
            }
        }
        if (most < kLeastWatched || most < kMostlyWatched * graph_.steps) {
            graph_.watched = watched.size() < kLeastWatched ? std::vector<uint32_t>() : std::move(watched);
            return;
        }
        graph_.missing.push_back(fmt::format("the GPUs were watched in steps {} to {}: the {} others are left out",
                                             graph_.first_step + static_cast<int32_t>(begin),
                                             graph_.first_step + static_cast<int32_t>(begin + most) - 1,
                                             graph_.steps - most));
        graph_.first_step += static_cast<int32_t>(begin);
        graph_.steps = most;
        graph_.sample = 1;
    }

    // From the end of one step's calls on the GPU to that of another's: marks of a host that runs ahead, and waits for
    // its GPU every tenth step, are up to ten steps apart from what they mark. Hosts that wait in each step mark it
    // well. What comes behind the last step's calls, as a checkpoint does, is seen where the next step has begun.
    void measure_steps_by_device() {
        if (!graph_.by_device || graph_.sample > 1) {
            return;
        }
        double sum_ns = 0;
        bool runs_ahead = false;
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            const Process& process = run_.processes[graph_.processes[r]];
            const std::vector<int64_t> ended_ns = ends_of_steps(r);
            const int64_t first_ns = ended_ns.front(), last_ns = ended_ns.back();
            if (first_ns == 0 || last_ns <= first_ns) {
                return;
            }
            const int64_t begun_ns = end_of_first_call_ns(process, graph_.first_step);
            const int64_t next_ns = end_of_first_call_ns(process, step_number(graph_.steps));
            sum_ns += begun_ns != 0 && next_ns > begun_ns
                          ? static_cast<double>(next_ns - begun_ns) / graph_.steps
                          : (static_cast<double>(last_ns - first_ns) + behind_last_ns(process, ended_ns)) /
                                (graph_.steps - 1);
            const auto is_ahead = [&](uint32_t step) {
                const StepProfile* const profile = process.profile_of(step_number(step));
                return profile == nullptr || ended_ns[step] > profile->end_ns + graph_.known_ns[r];
            };
            runs_ahead |= is_ahead(0) || is_ahead(graph_.steps - 1);
        }
        if (runs_ahead || graph_.by_period) {
            graph_.step_ns = sum_ns / static_cast<double>(graph_.ranks());
        }
    }

    int32_t step_number(uint32_t step) const { return graph_.first_step + static_cast<int32_t>(step); }

    // When the GPU had ended the rank's calls of each step; 0: none is seen to end.
    std::vector<int64_t> ends_of_steps(size_t r) const {
        std::vector<int64_t> ended_ns(graph_.steps, 0);
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            if (raw_[n].is_call()) {
                int64_t& end_ns = ended_ns[graph_.nodes[n].step];
                end_ns = std::max(end_ns, raw_[n].ended_ns);
            }
        }
        return ended_ns;
    }

    // Where no call of the next step is seen to end: by how much longer than usual the host marked the end of the last
    // step behind its calls.
    double behind_last_ns(const Process& process, const std::vector<int64_t>& ended_ns) const {
        std::vector<double> behind_ns;
        for (uint32_t s = 0; s < graph_.steps; ++s) {
            const StepProfile* const profile = process.profile_of(step_number(s));
            const bool is_seen = profile != nullptr && ended_ns[s] != 0;
            behind_ns.push_back(is_seen ? std::max(0.0, static_cast<double>(profile->end_ns - ended_ns[s])) : 0.0);
        }
        return last_above_usual(std::move(behind_ns));
    }

    // Calls visit(call, its times, when the host entered it, index of its step) for each timed call behind the
    // beginning of the first whole step; kNoIndex: it moves no data, or is of no step of the graph.
    template <typename Visit>
    void for_each_call(const Process& process, const Visit& visit) const {
        const uint32_t until = end_of_last(process);
        const int32_t last_step = graph_.first_step + static_cast<int32_t>(graph_.steps) - 1;
        size_t profile = 0;
        for_each_timed_call(process, [&](uint32_t place, const CallTimes& times, int64_t entered_ns) {
            if (place < process.steps.front().first_call || place >= until) {
                return;
            }
            while (profile + 1 < process.steps.size() && process.steps[profile + 1].first_call <= place) {
                ++profile;
            }
            const CallSignature& call = process.history[place];
            const int32_t step = process.steps[profile].step;
            const bool counts = step >= graph_.first_step && step <= last_step && format::moves_data(call.kind) &&
                                !call.captured && call.row < process.members.size();
            visit(call, times, entered_ns, counts ? static_cast<uint32_t>(step - graph_.first_step) : kNoIndex);
        });
    }

    void add_process(uint32_t index) {
        const Process& process = run_.processes[index];
        const uint32_t middle_step = graph_.steps / 2;
        uint64_t calls_of_a_step = all_roles_[index];
        GroupWords group;
        order_ = StepOrder(process.step_streams);
        bool open = false;  // the newest node is of this process, and of the call before
        for_each_call(process,
                      [&](const CallSignature& call, const CallTimes& times, int64_t entered_ns, uint32_t step) {
                          if (step == kNoIndex) {
                              open = false;
                              return;
                          }
                          const bool joins = open && (times.sequence & CallTimes::kWithBefore) != 0;
                          if (graph_.by_streams && !joins) {
                              add_work_before(call, step);
                          }
                          add_call(index, call, times, entered_ns, step, joins);
                          open = true;
                          if (step == middle_step) {
                              if (!joins) {
                                  group.end(calls_of_a_step);
                              }
                              group.add(process.members[call.row], call);
                          }
                      });
        if (graph_.by_streams) {
            end_order();
            calls_of_a_step = mix_order(calls_of_a_step, process.step_streams);
        }
        group.end(calls_of_a_step);
        const auto role = static_cast<uint32_t>(role_numbers_.size());
        graph_.roles.push_back(role_numbers_.try_emplace(calls_of_a_step, role).first->second);
    }

    // The work that the streams have before this call.
    void add_work_before(const CallSignature& call, uint32_t step) {
        if (raw_.size() == graph_.begin.back() || raw_.back().step != step) {
            end_order();
            order_.begin_step();
        }
        order_.pass_work([&](uint32_t piece) { add_work(piece, step); });
        piece_ = order_.pass_call(call);
    }

    void add_work(uint32_t piece, uint32_t step) {
        graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
        raw_.push_back({0, 0, 0, step});
        raw_.back().piece = piece;
    }

    // Behind the last call of a step.
    void end_order() {
        order_.pass_work([&](uint32_t piece) { add_work(piece, raw_.back().step); });
        order_.leave();
    }

    void add_call(uint32_t index, const CallSignature& call, const CallTimes& times, int64_t entered_ns, uint32_t step,
                  bool joins) {
        const auto at = [&](uint32_t units) {
            return units == kNoIndex ? 0 : entered_ns + int64_t{units} * CallTimes::kUnitNs;
        };
        if (!joins) {
            graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
            raw_.push_back({entered_ns, 0, 0, step, call.row, call.kind});
            raw_.back().piece = std::exchange(piece_, kNoIndex);
        }
        RawNode& node = raw_.back();
        const int64_t started_ns = at(times.started);
        node.arrived_ns = std::max(node.arrived_ns, started_ns);
        node.ended_ns = std::max(node.ended_ns, at(times.ended));
        const uint32_t meeting =
            meetings_.of(run_.processes[index], call, times.sequence & (CallTimes::kWithBefore - 1));
        if (meeting != kNoIndex) {
            const auto own = graph_.pieces.begin() + graph_.piece_begin.back();
            if (std::find(own, graph_.pieces.end(), meeting) == graph_.pieces.end()) {
                graph_.pieces.push_back(meeting);
                ++graph_.meeting_size[meeting];
            }
        }
    }

    // The meetings of the graph that this process comes to, too.
    void add_outside(uint32_t index) {
        const Process& process = run_.processes[index];
        if (!process.sees.moments) {
            return;
        }
        for_each_timed_call(process, [&](uint32_t place, const CallTimes& times, int64_t entered_ns) {
            const uint32_t meeting =
                meetings_.known(process, process.history[place], times.sequence & (CallTimes::kWithBefore - 1));
            if (meeting != kNoIndex) {
                const int64_t after_ns = times.started == kNoIndex ? 0 : int64_t{times.started} * CallTimes::kUnitNs;
                const auto arrived_ns =
                    static_cast<double>(clocks_.common_ns(index, entered_ns + after_ns) - last_.origin_ns);
                const double late_ns = arrived_ns - last_.since_origin_ns[meeting];
                graph_.outside[meeting].push_back(
                    {index, late_ns, loads_code(process, entered_ns - static_cast<int64_t>(late_ns), entered_ns)});
            }
        });
    }

    // Arrivals that nobody saw: when the host made the call, or what it had waited for before had ended.
    void complete_arrivals() {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            int64_t ended_ns = 0;
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                RawNode& node = raw_[n];
                if (!node.is_call()) {
                    continue;
                }
                if (node.arrived_ns == 0) {
                    node.arrived_ns = std::max(node.entered_ns, ended_ns);
                }
                node.ended_ns = node.ended_ns == 0 ? 0 : std::max(node.ended_ns, node.arrived_ns);
                ended_ns = std::max(ended_ns, node.ended_ns);
            }
        }
    }

    // False where the same launches are watched in each step.
    bool fill_in_unseen() {
        StepMoments moments;
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            moments.push_back(moments_of(run_.processes[graph_.processes[r]], graph_));
        }
        if (!fill_unseen(moments, graph_, raw_)) {
            return false;
        }
        for (size_t r = 0; r < graph_.ranks() && graph_.watched.empty(); ++r) {
            graph_.known_ns[r] =
                std::max({graph_.known_ns[r], kFilledInNs, static_cast<int64_t>(kFilledInShare * graph_.step_ns)});
        }
        return true;
    }

    bool fill_nodes() {
        graph_.nodes.resize(raw_.size());
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            uint32_t slot = 0;
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                slot = n != graph_.begin[r] && raw_[n].step == raw_[n - 1].step ? slot + 1 : 0;
                graph_.nodes[n].step = raw_[n].step;
                graph_.nodes[n].slot = slot;
            }
        }
        if (graph_.sample > 1 && !fill_in_unseen()) {
            graph_.why_none = fmt::format(
                "one of {} launches is watched, and the same ones in each step: when the others ran, the record does "
                "not show, and what the step would take without a cause cannot be played",
                graph_.sample);
            return false;
        }
        complete_arrivals();
        if (graph_.by_streams) {
            chain_by_streams(orders_, raw_, came_, graph_);
        } else {
            chain_nodes(raw_, came_, graph_);
        }
        return true;
    }

    const Run& run_;
    const Clocks& clocks_;
    std::vector<uint32_t> all_roles_;
    StepGraph graph_;
    Meetings meetings_{graph_};
    std::vector<RawNode> raw_;
    std::vector<const std::vector<StreamPiece>*> orders_;  // by rank
    StepOrder order_;                                      // of the process at hand
    uint32_t piece_ = kNoIndex;                            // of the call that comes next
    std::unordered_map<uint64_t, uint32_t> role_numbers_;
    LastArrivals last_;
    std::vector<uint32_t> outside_;            // processes without steps here
    std::vector<std::vector<uint32_t>> came_;  // nodes by rank, as they came
};

}  // namespace

void measure_steps(const Run& run, StepGraph& graph) {
    const int32_t last = graph.first_step + static_cast<int32_t>(graph.steps) - 1;
    double sum_ns = 0;
    size_t known = 0;
    for (const uint32_t p : graph.processes) {
        const StepProfile* begin = run.processes[p].profile_of(graph.first_step);
        const StepProfile* end = run.processes[p].profile_of(last);
        if (begin != nullptr && end != nullptr && end->end_ns > begin->begin_ns) {
            sum_ns += static_cast<double>(end->end_ns - begin->begin_ns) / graph.steps;
            ++known;
        }
    }
    graph.step_ns = known == 0 ? 0 : sum_ns / static_cast<double>(known);
}

StepGraph step_graph(const Run& run, const Clocks& clocks) { return GraphBuilder(run, clocks).build(); }

}  // namespace titan::analyzer

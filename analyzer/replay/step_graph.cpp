#include "step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "collective_instances.h"
#include "graph_order.h"
#include "group_words.h"
#include "host/words.h"
#include "meetings.h"
#include "node_chains.h"
#include "same_work.h"
#include "stream_chains.h"
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
constexpr double kGoodClockNs = 3e6;        // bound of an aligned clock
constexpr int64_t kLooksBehind = 2;         // a GPU that comes so many looks behind the call keeps up with its host

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
            clocks_are_good_ &= clocks_.aligned(process) && clocks_.bound_ns(process) <= kGoodClockNs;
            graph_.begin.push_back(static_cast<uint32_t>(raw_.size()));
            graph_.known_ns.push_back(resolution_ns(run_.processes[process]));
            add_process(process);
        }
        graph_.begin.push_back(static_cast<uint32_t>(raw_.size()));
        graph_.piece_begin.push_back(static_cast<uint32_t>(graph_.pieces.size()));
        if (!fill_nodes()) {
            return std::move(graph_);
        }
        put_in_order();
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
        if (!without.empty()) {
            graph_.missing.push_back(
                ranks_text(without) + (without.size() == 1 ? " has" : " have") +
                " no whole steps on record: what others wait for there counts as time of the calls");
        }
        if (!unmarked.empty()) {
            graph_.missing.push_back(ranks_text(unmarked) + (unmarked.size() == 1 ? " marks" : " mark") +
                                     " no steps, others do: what these wait for there counts as time of the calls");
        }
        if (!run_.missing_ranks.empty()) {
            graph_.missing.push_back(ranks_text(run_.missing_ranks) +
                                     (run_.missing_ranks.size() == 1 ? " has" : " have") +
                                     " no record: what others wait for there counts as time of the calls");
        }
        choose_watched_steps();
        measure_steps();
        return true;
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

    void measure_steps() {
        const int32_t last = graph_.first_step + static_cast<int32_t>(graph_.steps) - 1;
        double sum_ns = 0;
        size_t known = 0;
        for (const uint32_t p : graph_.processes) {
            const StepProfile* begin = run_.processes[p].profile_of(graph_.first_step);
            const StepProfile* end = run_.processes[p].profile_of(last);
            if (begin != nullptr && end != nullptr && end->end_ns > begin->begin_ns) {
                sum_ns += static_cast<double>(end->end_ns - begin->begin_ns) / graph_.steps;
                ++known;
            }
        }
        graph_.step_ns = known == 0 ? 0 : sum_ns / static_cast<double>(known);
    }

    // From the end of one step's calls on the GPU to that of another's: marks of a host that runs ahead, and waits for
    // its GPU every tenth step, are up to ten steps apart from what they mark. Hosts that wait in each step mark it
    // well.
    void measure_steps_by_device() {
        if (!graph_.by_device || graph_.sample > 1) {
            return;
        }
        double sum_ns = 0;
        bool runs_ahead = false;
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            int64_t first_ns = 0;
            int64_t last_ns = 0;
            graph_.for_each_step(r, [&](uint32_t first, uint32_t end) {
                int64_t& ended_ns = graph_.nodes[first].step == 0 ? first_ns : last_ns;
                const bool is_edge = graph_.nodes[first].step == 0 || graph_.nodes[first].step + 1 == graph_.steps;
                for (uint32_t n = first; n < end && is_edge; ++n) {
                    ended_ns = raw_[n].is_call() ? std::max(ended_ns, raw_[n].ended_ns) : ended_ns;
                }
            });
            if (first_ns == 0 || last_ns <= first_ns) {
                return;
            }
            sum_ns += static_cast<double>(last_ns - first_ns) / (graph_.steps - 1);
            const Process& process = run_.processes[graph_.processes[r]];
            const int32_t last = graph_.first_step + static_cast<int32_t>(graph_.steps) - 1;
            const auto ended_in = [&](int32_t step, int64_t ended_ns) {
                const StepProfile* const profile = process.profile_of(step);
                return profile != nullptr && ended_ns <= profile->end_ns + graph_.known_ns[r];
            };
            runs_ahead |= !ended_in(graph_.first_step, first_ns) || !ended_in(last, last_ns);
        }
        if (runs_ahead || graph_.by_period) {
            graph_.step_ns = sum_ns / static_cast<double>(graph_.ranks());
        }
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
                    static_cast<double>(clocks_.common_ns(index, entered_ns + after_ns) - origin_ns_);
                const double late_ns = arrived_ns - last_ns_[meeting];
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
        fill_own_times();
        fill_run_times();
        return true;
    }

    double common_ns(size_t r, int64_t time_ns) const {
        return static_cast<double>(clocks_.common_ns(graph_.processes[r], time_ns) - origin_ns_);
    }

    void fill_own_times() {
        const int32_t last_step = graph_.first_step + static_cast<int32_t>(graph_.steps) - 1;
        std::vector<int64_t> began_ns;
        origin_ns_ = INT64_MAX;
        for (const uint32_t p : graph_.processes) {
            const StepProfile* const first = run_.processes[p].profile_of(graph_.first_step);
            began_ns.push_back(
                first == nullptr ? 0 : std::max(first->begin_ns, ended_before_ns(run_.processes[p], *first)));
            origin_ns_ = std::min(origin_ns_, clocks_.common_ns(p, began_ns.back()));
        }
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            graph_.began_ns.push_back(common_ns(r, began_ns[r]));
            const StepProfile* const last = run_.processes[graph_.processes[r]].profile_of(last_step);
            const bool any = graph_.last[r] != kNoIndex;
            const int64_t ended_ns =
                !any ? 0 : std::max(raw_[graph_.last[r]].ended_ns, raw_[graph_.last[r]].arrived_ns);
            graph_.tail_ns.push_back(
                last == nullptr || !any ? 0 : static_cast<double>(std::max<int64_t>(0, last->end_ns - ended_ns)));
            graph_.carried_ns.resize((r + 1) * graph_.steps, 0);
            graph_.carried_ns.back() = static_cast<float>(graph_.tail_ns.back());
            const std::vector<int64_t> first_ns = first_calls_ns(r);
            for (const uint32_t n : came_[r]) {
                StepNode& node = graph_.nodes[n];
                const uint32_t before = node.before;
                int64_t since_ns = before == kNoIndex ? began_ns[r]
                                   : node.after_end   ? raw_[before].ended_ns
                                                      : raw_[before].arrived_ns;
                if (node.after_both && node.after != kNoIndex) {
                    since_ns = std::max(since_ns, raw_[node.after].ended_ns);
                }
                node.own_ns = static_cast<float>(raw_[n].arrived_ns - since_ns);  // below 0: seen late
                const int64_t behind_ns = raw_[n].entered_ns - since_ns;
                node.behind_ns = std::clamp(static_cast<float>(behind_ns), 0.0F, std::max(0.0F, node.own_ns));
                node.host_late = behind_ns > 0 && behind_ns > (raw_[n].arrived_ns - since_ns) / 2;
                node.keeps_up = raw_[n].arrived_ns - raw_[n].entered_ns <= kLooksBehind * graph_.known_ns[r];
                if (node.behind_ns > 0 && node.step != 0 && raw_[n].entered_ns <= first_ns[node.step]) {
                    note_carried(r, raw_[n], since_ns);
                }
            }
        }
    }

    // By step: when the host made its first call.
    std::vector<int64_t> first_calls_ns(size_t r) const {
        std::vector<int64_t> first_ns(graph_.steps, INT64_MAX);
        for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
            if (raw_[n].is_call()) {
                int64_t& ns = first_ns[graph_.nodes[n].step];
                ns = std::min(ns, raw_[n].entered_ns);
            }
        }
        return first_ns;
    }

    // The part of the host's time before a step's first call that belongs to the step before. `first`: that call, or
    // the work before it on its stream, which is as late.
    void note_carried(size_t r, const RawNode& first, int64_t since_ns) {
        const StepProfile* const before =
            run_.processes[graph_.processes[r]].profile_of(graph_.first_step + static_cast<int32_t>(first.step) - 1);
        if (before != nullptr) {
            const int64_t until_ns = std::min(before->end_ns, first.entered_ns);
            float& carried_ns = graph_.carried_ns[r * graph_.steps + first.step - 1];
            carried_ns = std::max(carried_ns, static_cast<float>(until_ns - since_ns));
        }
    }

    // Run time of a lone collective: its last member's; of others: the time after the last arrival.
    void fill_run_times() {
        const size_t meetings = graph_.meeting_size.size();
        std::vector<double> least_ns(meetings, 1e300);
        last_ns_.assign(meetings, -1e300);
        for_each_piece([&](size_t r, uint32_t n, uint32_t, uint32_t meeting) {
            last_ns_[meeting] = std::max(last_ns_[meeting], common_ns(r, raw_[n].arrived_ns));
            if (raw_[n].ended_ns != 0) {
                const auto took_ns = static_cast<double>(raw_[n].ended_ns - raw_[n].arrived_ns);
                least_ns[meeting] = std::min(least_ns[meeting], took_ns);
            }
        });
        for_each_piece([&](size_t r, uint32_t n, uint32_t piece, uint32_t meeting) {
            const Process& process = run_.processes[graph_.processes[r]];
            const StepRoute& route = graph_.routes[graph_.meeting_route[meeting]];
            const bool sends = route.is_pair() && process.members[raw_[n].row].rank == route.from;
            const auto known_ns = static_cast<double>(graph_.known_ns[r]);
            if (sends && raw_[n].ended_ns != 0 && common_ns(r, raw_[n].ended_ns) + known_ns < last_ns_[meeting]) {
                graph_.pieces[piece] |= StepGraph::kDoesNotWait;
            }
        });
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                const uint32_t first = graph_.piece_begin[n];
                const uint32_t count = graph_.piece_begin[n + 1] - first;
                if (raw_[n].ended_ns == 0) {
                    continue;
                }
                const auto took_ns = static_cast<double>(raw_[n].ended_ns - raw_[n].arrived_ns);
                double ran_ns = took_ns;
                if (count == 1 && !is_pair(graph_.pieces[first] & ~StepGraph::kDoesNotWait) && !clocks_are_good_) {
                    ran_ns = least_ns[graph_.pieces[first]];
                } else {
                    double together_ns = common_ns(r, raw_[n].arrived_ns);
                    for (uint32_t p = first; p < first + count; ++p) {
                        if ((graph_.pieces[p] & StepGraph::kDoesNotWait) == 0) {
                            together_ns = std::max(together_ns, last_ns_[graph_.pieces[p]]);
                        }
                    }
                    ran_ns = std::min(common_ns(r, raw_[n].ended_ns) - together_ns, took_ns);
                }
                graph_.nodes[n].run_ns = static_cast<float>(ran_ns);
                graph_.nodes[n].has_end = true;
            }
        }
    }

    bool is_pair(uint32_t meeting) const { return graph_.routes[graph_.meeting_route[meeting]].is_pair(); }

    template <typename Visit>
    void for_each_piece(const Visit& visit) {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                for (uint32_t p = graph_.piece_begin[n]; p < graph_.piece_begin[n + 1]; ++p) {
                    visit(r, n, p, graph_.pieces[p] & ~StepGraph::kDoesNotWait);
                }
            }
        }
    }

    void put_in_order() {
        std::vector<double> arrived_ns(raw_.size(), 0);
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            for (uint32_t n = graph_.begin[r]; n < graph_.begin[r + 1]; ++n) {
                arrived_ns[n] = common_ns(r, raw_[n].arrived_ns);
            }
        }
        order_nodes(came_, arrived_ns, graph_);
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
    std::vector<double> last_ns_;              // by meeting: when the last of the graph's ranks came
    std::vector<uint32_t> outside_;            // processes without steps here
    std::vector<std::vector<uint32_t>> came_;  // nodes by rank, as they came
    int64_t origin_ns_ = 0;
    bool clocks_are_good_ = true;  // moments on different hosts may be compared
};

}  // namespace

StepGraph step_graph(const Run& run, const Clocks& clocks) { return GraphBuilder(run, clocks).build(); }

}  // namespace titan::analyzer

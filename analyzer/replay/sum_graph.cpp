#include "sum_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "collective_instances.h"
#include "host/words.h"
#include "robust.h"
#include "run_text.h"
#include "span_graph.h"

namespace titan::analyzer {
namespace {

constexpr double kMostOfStep = 0.95;  // who waits for longer does so in a step of its GPU, which its host is ahead of

constexpr double kLongestStepNs = 1e14;  // a day: what damage makes longer is none

// All ranks' calls of one operation on one communicator in one step.
using CallsKey = std::tuple<uint64_t, OpKind, uint32_t>;

struct RankCalls {
    size_t rank = 0;  // its place in the graph
    double gpu_ns = 0;
    double most_unseen_ns = 0;  // that those took which were over at the next look at the GPU
    double entered_sum_ns = 0;  // since the rank's first step began
    uint64_t calls = 0;
    uint64_t timed = 0;
    double middle_ns() const { return gpu_ns + most_unseen_ns / 2; }
    double entered_ns() const { return entered_sum_ns / static_cast<double>(calls); }
};

struct Wait {
    double wait_ns = 0;
    double late_ns = 0;       // by so much it came later than the first
    double host_late_ns = 0;  // and its host, as the hosts' clocks tell
};

class SumGraphBuilder {
  public:
    explicit SumGraphBuilder(const Run& run) : run_(run) {}

    std::optional<StepGraph> build() {
        for (uint32_t p = 0; p < run_.processes.size(); ++p) {
            const Process& process = run_.processes[p];
            if (!process.steps.empty() && process.summed_calls.empty()) {
                return std::nullopt;
            }
            add_marked_steps(run_, p, graph_);
        }
        const auto has_first = [this](uint32_t p) {
            return run_.processes[p].profile_of(graph_.first_step) != nullptr;
        };
        if (!choose_common_steps(run_, graph_) || !std::ranges::all_of(graph_.processes, has_first)) {
            return std::nullopt;
        }
        by_gpu_ = std::ranges::all_of(graph_.processes, [this](uint32_t p) {
            return run_.processes[p].gpu_progress && run_.processes[p].gpu_sample == 1;
        });
        one_host_ = std::ranges::all_of(graph_.processes,
                                        [this](uint32_t p) { return run_.processes[p].host == first().host; });
        if (!by_gpu_ && !one_host_) {
            return without("their GPUs were not watched in each step, and clocks of several hosts are not compared");
        }
        if (!add_sums()) {
            return without("sends and receives are among them, which sums do not tell apart");
        }
        if (!find_waits()) {
            return without("no collective without a root joins all ranks");
        }
        fill();
        return std::move(graph_);
    }

  private:
    const Process& first() const { return run_.processes[graph_.processes.front()]; }

    StepGraph without(const std::string& why) {
        graph_.why_none =
            "calls of NCCL are on record as sums of steps alone, and who waits in them is not known: " + why;
        return std::move(graph_);
    }

    int64_t began_ns(size_t rank) const {
        return run_.processes[graph_.processes[rank]].profile_of(graph_.first_step)->begin_ns;
    }

    // False: there are calls between two ranks.
    bool add_sums() {
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            const Process& process = run_.processes[graph_.processes[r]];
            const auto resolution_ns = static_cast<double>(analyzer::resolution_ns(process));
            for (const SummedCalls& sum : process.summed_calls) {
                const bool is_here =
                    sum.step >= graph_.first_step && sum.step < graph_.first_step + int64_t{graph_.steps};
                // The root of a broadcast waits for nobody, and may be short without being late.
                const bool is_rooted = format::class_of(sum.kind) == format::OpClass::rooted;
                if (!is_here || sum.communicator_id == 0 || sum.calls == 0 || is_rooted) {
                    continue;
                }
                if (format::class_of(sum.kind) == format::OpClass::p2p) {
                    return false;
                }
                std::vector<RankCalls>& ranks =
                    sums_[{sum.communicator_id, sum.kind, static_cast<uint32_t>(sum.step - graph_.first_step)}];
                if (ranks.empty() || ranks.back().rank != r) {
                    ranks.push_back({.rank = r});
                }
                RankCalls& calls = ranks.back();
                calls.gpu_ns += static_cast<double>(sum.gpu_ns);
                calls.most_unseen_ns += static_cast<double>(sum.calls - sum.timed) * resolution_ns;
                calls.timed += sum.timed;
                calls.entered_sum_ns += (static_cast<double>(sum.entered_ns) - static_cast<double>(began_ns(r))) *
                                        static_cast<double>(sum.calls);
                calls.calls += sum.calls;
                names_[sum.communicator_id] = process.text(sum.name);
            }
        }
        return true;
    }

    // False: some ranks share no communicator with the others, not even by way of a third one.
    bool find_waits() {
        waits_.assign(graph_.ranks(), std::vector<Wait>(graph_.steps));
        joined_.resize(graph_.ranks());
        std::iota(joined_.begin(), joined_.end(), size_t{0});
        std::map<std::pair<uint64_t, OpKind>, double> waited_ns;
        for (const auto& [key, ranks] : sums_) {
            const auto& [communicator, kind, step] = key;
            const uint64_t calls = ranks.front().calls;
            const bool alike = std::ranges::all_of(ranks, [&](const RankCalls& one) { return one.calls == calls; });
            if (ranks.size() < 2 || !alike) {
                continue;
            }
            for (const RankCalls& one : ranks) {
                joined_[top_of(one.rank)] = top_of(ranks.front().rank);
            }
            waited_ns[{communicator, kind}] += add_waits(ranks, step);
        }
        if (waited_ns.empty()) {
            return false;
        }
        const auto most =
            std::ranges::max_element(waited_ns, [](const auto& a, const auto& b) { return a.second < b.second; });
        const std::string& name = names_[most->first.first];
        graph_.meets_in = op_text(most->first.second) + (name.empty() ? "" : " on " + name);
        for (size_t r = 1; r < graph_.ranks(); ++r) {
            if (top_of(r) != top_of(0)) {
                return false;
            }
        }
        return true;
    }

    size_t top_of(size_t rank) const {
        while (joined_[rank] != rank) {
            rank = joined_[rank];
        }
        return rank;
    }

    // How long they waited together.
    double add_waits(const std::vector<RankCalls>& ranks, uint32_t step) {
        const auto came = [this](const RankCalls& a, const RankCalls& b) {
            return by_gpu_ ? a.middle_ns() > b.middle_ns() : entered_ns(a) < entered_ns(b);
        };
        const auto [first, last] = std::ranges::minmax_element(ranks, came);
        const auto earliest = std::ranges::min_element(
            ranks, [this](const RankCalls& a, const RankCalls& b) { return entered_ns(a) < entered_ns(b); });
        const double longest_ns = wait_ns(*first, *last);
        double sum_ns = 0;
        for (const RankCalls& one : ranks) {
            const double waited_ns = wait_ns(one, *last);
            sum_ns += waited_ns;
            Wait& wait = waits_[one.rank][step];
            wait.wait_ns = std::max(wait.wait_ns, waited_ns);
            if (const double late_ns = longest_ns - waited_ns; late_ns > wait.late_ns) {
                wait.late_ns = late_ns;
                wait.host_late_ns = entered_ns(one) - entered_ns(*earliest);
            }
        }
        return sum_ns;
    }

    // How long at least the rank waited for the one that came last: what nobody saw of that one's calls may have been
    // as long as it takes to look at a GPU, unless its host came late by as much as the rank waited.
    double wait_ns(const RankCalls& one, const RankCalls& last) const {
        const double host_ns = entered_ns(last) - entered_ns(one);
        if (!by_gpu_) {
            return std::max(0.0, host_ns);
        }
        const double most_ns = std::max(0.0, one.gpu_ns - last.gpu_ns);
        const double least_ns = std::max(0.0, most_ns - last.most_unseen_ns);
        return 2 * one.timed >= one.calls ? std::clamp(host_ns, least_ns, most_ns) : least_ns;
    }

    // Where hosts have clocks of their own: since its first step began, when all had just waited for each other.
    double entered_ns(const RankCalls& one) const {
        return one.entered_ns() + (one_host_ ? static_cast<double>(began_ns(one.rank) - began_ns(0)) : 0);
    }

    // All leave the meeting of a step together, each on a clock of its own.
    void fill() {
        const std::vector<double> lengths_ns = lengths_of_steps();
        Clocks clocks;
        Stays stays(graph_.ranks(), std::vector<Stay>(graph_.steps));
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            double left_ns = 0;
            for (size_t s = 0; s < graph_.steps; ++s) {
                const Wait& wait = waits_[r][s];
                // What all hosts do their GPUs may hide.
                const double called_ns =
                    left_ns + std::clamp(wait.host_late_ns, 0.0, std::min(wait.late_ns, lengths_ns[s]));
                left_ns += lengths_ns[s];
                const double came_ns = left_ns - std::min(wait.wait_ns, lengths_ns[s]);
                stays[r][s] = {began_ns(r) + static_cast<int64_t>(came_ns), began_ns(r) + static_cast<int64_t>(left_ns),
                               began_ns(r) + static_cast<int64_t>(called_ns)};
            }
            HostClock& clock = clocks.hosts.emplace_back();
            clock.aligned = true;
            clock.stretches = {{.offset_ns = static_cast<double>(began_ns(r) - began_ns(0))}};
        }
        clocks.host_of.assign(run_.processes.size(), 0);
        for (size_t r = 0; r < graph_.ranks(); ++r) {
            clocks.host_of[graph_.processes[r]] = static_cast<uint32_t>(r);
        }
        graph_.by_sums = true;
        graph_.missing.push_back(
            by_gpu_
                ? fmt::format("calls of NCCL are on record as sums of steps alone: who is longest in them, most of "
                              "all in {}, is taken to wait for who is shortest",
                              graph_.meets_in)
                : fmt::format("calls of NCCL are on record as sums of steps alone, and the GPUs were not watched in "
                              "each step: all are taken to wait for the host that comes last to them, most of all "
                              "to {}, which a GPU may hide",
                              graph_.meets_in));
        meet_once_a_step(run_, clocks, stays, graph_);
    }

    // The median of the ranks; where hosts run ahead of their GPUs, the mean of all steps.
    std::vector<double> lengths_of_steps() const {
        std::vector<double> lengths_ns;
        bool runs_ahead = false;
        for (size_t s = 0; s < graph_.steps; ++s) {
            std::vector<double> of_ranks;
            double longest_wait_ns = 0;
            for (size_t r = 0; r < graph_.ranks(); ++r) {
                const StepProfile* const profile =
                    run_.processes[graph_.processes[r]].profile_of(graph_.first_step + static_cast<int64_t>(s));
                of_ranks.push_back(profile == nullptr ? 0 : static_cast<double>(profile->length_ns()));
                longest_wait_ns = std::max(longest_wait_ns, waits_[r][s].wait_ns);
            }
            lengths_ns.push_back(std::clamp(median_of(std::move(of_ranks)), 0.0, kLongestStepNs));
            runs_ahead |= longest_wait_ns > kMostOfStep * lengths_ns.back();
        }
        if (runs_ahead) {
            const double mean_ns = std::accumulate(lengths_ns.begin(), lengths_ns.end(), 0.0) / graph_.steps;
            lengths_ns.assign(graph_.steps, mean_ns);
        }
        return lengths_ns;
    }

    const Run& run_;
    StepGraph graph_;
    bool by_gpu_ = false;
    bool one_host_ = false;
    std::map<CallsKey, std::vector<RankCalls>> sums_;
    std::map<uint64_t, std::string> names_;
    std::vector<std::vector<Wait>> waits_;  // by rank and step
    std::vector<size_t> joined_;            // by rank: one that it shares a communicator with
};

}  // namespace

std::optional<StepGraph> sum_graph(const Run& run) { return SumGraphBuilder(run).build(); }

}  // namespace titan::analyzer

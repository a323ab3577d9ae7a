#include "slow_causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cause_search.h"
#include "host/words.h"
#include "late_ranks.h"
#include "layout.h"
#include "run_text.h"
#include "sampled_stacks.h"
#include "span_graph.h"
#include "spared_steps.h"
#include "sum_graph.h"

namespace titan::analyzer {
namespace {

constexpr double kSparedOfThem = 0.25;  // share of the steps since a cause began: it comes and goes

struct CauseRow {
    std::string_view name;
    std::string_view what;
    std::string_view without;
    std::string_view next;
};
constexpr CauseRow kCauses[] = {
#define CAUSE(id, name, what, without, next) {name, what, without, next},
#include "causes.def"
};

const CauseRow& row_of(CauseClass cause) { return kCauses[static_cast<size_t>(cause)]; }

std::string whom_text(const SlowCause& cause) {
    const bool is_link = cause.of_class == CauseClass::kSlowLink;
    if (is_link && cause.hosts.empty()) {
        return (cause.ranks.size() == 1 ? "of " : "between ") + ranks_text(cause.ranks);
    }
    if (cause.of_class == CauseClass::kSlowHost || is_link) {
        std::string hosts;
        for (const std::string& host : cause.hosts) {
            hosts += (hosts.empty() ? "" : cause.hosts.back() == host ? " and " : ", ") + host;
        }
        const bool one = cause.hosts.size() == 1;
        return (!is_link ? "" : one ? "within " : "between ") + std::string(one ? "host " : "hosts ") + hosts;
    }
    return cause.stage ? fmt::format("stage {}", *cause.stage) : ranks_text(cause.ranks);
}

std::string filled(std::string_view words, const std::string& whom) {
    std::string text(words);
    if (const size_t place = text.find("{}"); place != std::string::npos) {
        text.replace(place, 2, whom);
    }
    return text;
}

std::vector<SlowCause> causes_of(const Run& run, const StepGraph& graph) {
    CauseSearch of_all(run, graph);
    find_host_parts(of_all, graph.watched.empty() ? HowOften::kAny : HowOften::kSeldom);
    find_pauses_of_all(of_all);
    std::optional<CauseSearch> of_watched;
    if (!graph.watched.empty()) {
        of_watched.emplace(of_all, graph.watched);
        find_host_parts(*of_watched, HowOften::kInMostSteps);
    }
    CauseSearch& search = of_watched ? *of_watched : of_all;
    find_other_jobs(search);
    find_slow_links(search);
    find_uneven_sequences(search);
    find_uneven_stages(search);
    find_pauses_of_ranks(search);
    find_slow_ranks(search);
    find_everyone(search);
    if (of_watched) {
        of_all.causes.insert(of_all.causes.end(), of_watched->causes.begin(), of_watched->causes.end());
        find_pauses_of_hosts(of_all);
    }
    return std::move(of_all.causes);
}

// If no other rank does the same work, only changes show.
void tell_the_incomparable(const Run& run, const StepGraph& graph, SlowCauses& all) {
    std::map<uint32_t, std::vector<int>> ranks_of;
    for (size_t r = 0; r < graph.ranks(); ++r) {
        ranks_of[graph.roles[r]].push_back(run.processes[graph.processes[r]].rank);
    }
    std::vector<int> alone;
    for (const auto& [role, ranks] : ranks_of) {
        const bool is_stage = stage_of(run, ranks.front()) >= 0 && graph.by_device;
        if (ranks.size() == 1 && !is_stage) {  // stages are compared with each other
            alone.push_back(ranks.front());
        }
    }
    std::sort(alone.begin(), alone.end());
    if (!alone.empty()) {
        all.missing.push_back(
            fmt::format("no other rank does the work of {}: that {} slow all the time, the record "
                        "could not tell",
                        ranks_text(alone), alone.size() == 1 ? "it is" : "one of them is"));
    }
}

// What of a step the calls themselves take, beside waits for ranks that come late to them.
double share_of_calls(const StepGraph& graph) {
    Durations durations = recorded_durations(graph);
    const double recorded_ns = replay(graph, durations);
    std::ranges::fill(durations.run_ns, 0.0F);
    return recorded_ns > 0 ? 1 - replay(graph, durations) / recorded_ns : 0;
}

// What began in the middle, and is in most steps since then, costs more of each of these than of all.
void count_since_it_began(const StepGraph& graph, SlowCause& cause) {
    const auto steps = static_cast<double>(graph.steps);
    double before =
        !cause.since_step ? 0 : std::clamp(static_cast<double>(*cause.since_step - graph.first_step), 0.0, steps - 1);
    const auto spared = std::count_if(cause.spared_steps.begin(), cause.spared_steps.end(),
                                      [before](uint32_t step) { return step >= before; });
    before = static_cast<double>(spared) > kSparedOfThem * (steps - before) ? 0 : before;
    const double without_ns = graph.step_ns - cause.cost_ns;
    cause.cost_ns *= steps / (steps - before);
    cause.step_ns = without_ns + cause.cost_ns;
}

// Where the ranks of a cause stood, if their stacks were sampled.
void add_samples(const Run& run, SlowCauses& all) {
    for (SlowCause& cause : all.causes) {
        const auto from_step = all.by_period ? std::nullopt : std::optional(cause.since_step.value_or(all.first_step));
        cause.sampled = sampled_excess(run, cause.ranks, from_step);
        if (cause.sampled) {
            cause.evidence.push_back(excess_text(*cause.sampled));
        }
    }
}

bool marks_steps(const Run& run) {
    return std::ranges::any_of(
        run.processes, [](const Process& process) { return !process.steps.empty() && !process.steps_by_period; });
}

}  // namespace

std::string_view name_of(CauseClass cause) { return row_of(cause).name; }

std::string what_text(const SlowCause& cause) { return filled(row_of(cause.of_class).what, whom_text(cause)); }

std::string unseen_in_calls_text(const SlowCauses& slow) {
    constexpr double kMuch = 0.3;
    return slow.calls_share >= kMuch
               ? fmt::format(
                     "{:.0f}% of each step is spent in NCCL's calls: were all of them slow from the beginning, "
                     "the record could not tell (titan-analyze summary has their GB/s)",
                     100 * slow.calls_share)
               : std::string();
}

std::string_view next_step(const SlowCause& cause) { return row_of(cause.of_class).next; }

std::string since_text(const SlowCauses& slow, const SlowCause& cause) {
    if (!cause.since_step) {
        return {};
    }
    const int64_t end = slow.first_step + static_cast<int64_t>(slow.steps);
    return slow.by_period ? fmt::format("in the last {} of {} steps", end - *cause.since_step, slow.steps)
                          : fmt::format("since step {}", *cause.since_step);
}

std::string counterfactual_text(const SlowCause& cause) {
    return fmt::format("the step takes {}; {} {}{}", fine_duration_text(cause.step_ns),
                       fine_duration_text(cause.without_ns()), filled(row_of(cause.of_class).without, whom_text(cause)),
                       cause.gpus_unseen ? ", unless the GPUs need longer" : "");
}

SlowCauses slow_causes(const Run& run, const Timing& timing) {
    StepGraph graph = step_graph(run, timing.clocks);
    if (!graph.why_none.empty()) {
        if (std::optional<StepGraph> by_spans = span_graph(run, timing.clocks)) {
            graph = std::move(*by_spans);
        } else if (std::optional<StepGraph> by_sums = sum_graph(run)) {
            graph = std::move(*by_sums);
        } else if (graph.processes.empty() && marks_steps(run)) {
            graph.why_none =
                "steps are marked, but no call of NCCL in them is on record one by one, and no span that all ranks "
                "leave at one time: where they wait for each other is not known";
        }
    }
    SlowCauses all;
    all.missing = graph.missing;
    all.why_none = graph.why_none;
    if (!all.why_none.empty()) {
        return all;
    }
    all.step_ns = graph.step_ns;
    all.first_step = graph.first_step;
    all.steps = graph.steps;
    all.by_period = graph.by_period;
    for (const uint32_t process : graph.processes) {
        all.ranks.push_back(run.processes[process].rank);
    }
    std::sort(all.ranks.begin(), all.ranks.end());
    if (!graph.meets_in.empty()) {
        all.by_spans = true;
        if (!graph.by_sums) {
            all.missing.push_back(fmt::format(
                "no call of NCCL is on record: ranks are taken to wait for each other where all leave {} at one time",
                graph.meets_in));
        }
    } else if (!graph.by_device) {
        all.missing.emplace_back(
            "GPU times are not recorded: hosts show when ranks issued their calls, and synchronisations when calls had "
            "ended; the record cannot show slow links and uneven stages");
    }
    if (!graph.watched.empty()) {
        all.missing.push_back(
            fmt::format("the GPUs were watched in {} of {} steps: the others are taken to be like them",
                        graph.watched.size(), graph.steps));
    } else if (graph.sample > 1) {
        all.missing.push_back(
            fmt::format("one of {} launches is watched: when the others ran is taken from other steps", graph.sample));
    }
    for (std::string& seen : observing_texts(run)) {
        all.missing.push_back(std::move(seen));
    }
    tell_the_incomparable(run, graph, all);
    all.causes = causes_of(run, graph);
    if (all.causes.empty() && graph.by_device && graph.sample == 1) {
        all.calls_share = share_of_calls(graph);
    }
    for (SlowCause& cause : all.causes) {
        settle_since(cause, timing);
    }
    measure_by_spared_steps(graph, all);
    for (SlowCause& cause : all.causes) {
        count_since_it_began(graph, cause);
        cause.gpus_unseen = !graph.by_device && graph.meets_in.empty();
    }
    std::stable_sort(all.causes.begin(), all.causes.end(),
                     [](const SlowCause& a, const SlowCause& b) { return a.cost_ns > b.cost_ns; });
    add_samples(run, all);
    return all;
}

}  // namespace titan::analyzer

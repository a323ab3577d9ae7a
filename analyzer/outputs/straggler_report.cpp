#include "straggler_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "call_order.h"
#include "document.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "late_ranks.h"
#include "long_steps.h"
#include "pair_calls.h"
#include "patterns.h"
#include "run_text.h"

namespace titan::analyzer {
namespace {

constexpr size_t kShownRanks = 40;  // those that cost most

std::vector<const RankTiming*> by_cost(const Timing& timing) {
    std::vector<const RankTiming*> ranks = mapped(timing.ranks, [](const RankTiming& rank) { return &rank; });
    std::ranges::stable_sort(ranks, [](const auto* a, const auto* b) {
        const bool a_named = a->shape.pattern != LatePattern::kNone;
        const bool b_named = b->shape.pattern != LatePattern::kNone;
        return a_named != b_named ? a_named : a->lost_ns > b->lost_ns;
    });
    return ranks;
}

std::string since_text(const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    const auto since = since_of(slow, rank, axis);
    return since ? fmt::format("{}{}", axis.steps ? "" : "#", *since) : "-";
}

std::string pattern_text(const RankTiming& rank) {
    switch (rank.shape.pattern) {
        case LatePattern::kNone: return "-";
        case LatePattern::kPeriodic: return fmt::format("every {}", rank.shape.every);
        default: return name_of(rank.shape.pattern);
    }
}

std::string basis_text(const RankTiming& rank) { return rank.by_device ? "GPU" : "host"; }

// Explains why the records themselves cannot show stragglers, or not all; empty where they can.
std::string unseen_text(const Run& run, const Timing& timing) {
    const bool durations_alone = !run.processes.empty() && std::ranges::all_of(run.processes, [](const Process& one) {
        return !one.sees.moments;
    });
    if (durations_alone && timing.ranks.empty()) {
        return "these records show when the hosts made their calls, but not how long the GPUs waited in them, nor how "
               "the hosts' clocks differ: they cannot show who is late (TORCH_NCCL_ENABLE_TIMING=1 records how long "
               "calls take)";
    }
    const PairCalls calls = count_pair_calls(run);
    return calls.mostly() ? unseen_in_pairs_text(calls) : std::string();
}

Json sampled_json(const std::optional<SampledExcess>& excess) {
    return !excess ? Json(nullptr)
                   : Json{{"ranks", excess->ranks},
                          {"thread", excess->thread.empty() ? "main" : excess->thread},
                          {"frame", excess->frame},
                          {"samples", excess->samples},
                          {"of", excess->of},
                          {"peers_samples", excess->peers_samples},
                          {"peers_of", excess->peers_of}};
}

Json rank_json(const Run& run, const SlowCauses& slow, const RankTiming& rank, const TimeAxis& axis) {
    Json json{{"rank", rank.rank},
              {"host", run.processes[rank.process].host},
              {"compared_calls", rank.compared_calls},
              {"arrival", rank.by_device ? "device" : "host"},
              {"cost_ms_per_step", cost_ns(slow, rank, axis) * 1e-6},
              {"cost_fraction", share_of(slow, rank, axis)},
              {"noise_ns", rank.noise_ns},
              {"communicator", id_text(run.communicators[rank.communicator].id)},
              {"pattern", name_of(rank.shape.pattern)}};
    if (rank.shape.pattern != LatePattern::kNone) {
        const auto since = since_of(slow, rank, axis);
        json["since"] = since ? Json{{axis.steps ? "step" : "seq", *since}} : Json(nullptr);
        json["until"] = {{axis.steps ? "step" : "seq", axis.keys[rank.shape.last]}};
        json["every"] = rank.shape.every == 0 ? Json(nullptr) : Json(rank.shape.every);
        json["hits"] = rank.shape.hits;
        json["slow_part"] = rank.slow_part.empty() ? Json(nullptr) : Json(rank.slow_part);
        json["why"] = rank.why;
        if (!rank.calls.empty() && cause_of(slow, {rank.rank}) == nullptr) {
            json["why"].push_back(rank.calls);
        }
        json["sampled"] = sampled_json(rank.sampled);
    }
    return json;
}

Json cause_json(const SlowCause& cause) {
    return {{"class", std::string(name_of(cause.of_class))},
            {"what", what_text(cause)},
            {"ranks", cause.ranks},
            {"hosts", cause.hosts},
            {"stage", cause.stage ? Json(*cause.stage) : Json(nullptr)},
            {"since_step", cause.since_step ? Json(*cause.since_step) : Json(nullptr)},
            {"step_ms", cause.step_ns * 1e-6},
            {"step_ms_without", cause.without_ns() * 1e-6},
            {"cost_ms_per_step", cause.cost_ns * 1e-6},
            {"cost_fraction", cause.share()},
            {"evidence", cause.evidence},
            {"next", std::string(next_step(cause))},
            {"sampled", sampled_json(cause.sampled)}};
}

// The cause that costs most, in a sentence.
Section headline(const SlowCauses& slow, const Timing& timing) {
    const std::string long_steps = long_steps_text(timing.axes.front());
    Section section{.id = "slow"};
    if (!slow.why_none.empty()) {
        section.blocks.emplace_back(Paragraph{slow.why_none});
    } else if (slow.causes.empty()) {
        section.blocks.emplace_back(Paragraph{phrase(
            "the step takes {}{}", fine_duration_text(slow.step_ns),
            !long_steps.empty() || any_late(timing) ? "" : "; nothing that the records show costs more than chance")});
    } else {
        const SlowCause& first = slow.causes.front();
        const std::string since = since_text(slow, first);
        section.blocks.emplace_back(
            Paragraph{phrase("{}{}{}", since, since.empty() ? "" : " ", counterfactual_text(first))});
    }
    if (!long_steps.empty()) {
        section.blocks.emplace_back(Paragraph{long_steps});
    }
    for (const std::string& missing : slow.missing) {
        section.blocks.emplace_back(Paragraph{missing});
    }
    if (const std::string in_calls = unseen_in_calls_text(slow); !in_calls.empty()) {
        section.blocks.emplace_back(Paragraph{in_calls});
    }
    return section;
}

Section section_of(const SlowCauses& slow, const SlowCause& cause) {
    const std::string since = since_text(slow, cause);
    Section section{.id = std::string(name_of(cause.of_class)), .title = what_text(cause)};
    section.blocks.emplace_back(
        Paragraph{fmt::format("{} of each step in the mean ({:.1f}%){}: {}", fine_duration_text(cause.cost_ns),
                              100 * cause.share(), since.empty() ? since : ", " + since, counterfactual_text(cause))});
    Items items;
    for (const std::string& evidence : cause.evidence) {
        items.items.emplace_back(evidence);
    }
    section.blocks.emplace_back(std::move(items));
    section.blocks.emplace_back(Paragraph{phrase("next: {}", next_step(cause))});
    return section;
}

bool is_wanted(const StragglerOptions& options, const RankTiming& rank) {
    return options.ranks.empty() ? options.all || rank.shape.pattern != LatePattern::kNone
                                 : options.ranks.contains(rank.rank);
}

// Ranks whose lateness is chance are shown on demand.
Table table_of_ranks(const Run& run, const Timing& timing, const SlowCauses& slow, const StragglerOptions& options) {
    Table table{.columns = {{"rank", 4, true},
                            {"host", 4},
                            {"per step", 8, true},
                            {"of step", 7, true},
                            {"pattern", 10},
                            {"since", 5, true},
                            {"seen", 4},
                            {"slow part", 0}},
                .shown = options.all || !options.ranks.empty() ? kAll : kShownRanks,
                .others = "ranks that cost less (--all)"};
    for (const RankTiming* rank : by_cost(timing)) {
        const TimeAxis& axis = timing.axes[rank->axis];
        if (is_wanted(options, *rank)) {
            table.rows.push_back({std::to_string(rank->rank), run.processes[rank->process].host,
                                  fine_duration_text(cost_ns(slow, *rank, axis)),
                                  fmt::format("{:.1f}%", 100 * share_of(slow, *rank, axis)), pattern_text(*rank),
                                  since_text(slow, *rank, axis), basis_text(*rank), rank->slow_part});
        }
    }
    return table;
}

std::string group_of(const Run& run, SummaryBy by, const RankTiming& rank) {
    const Communicator& communicator = run.communicators[rank.communicator];
    return by == SummaryBy::kHost   ? run.processes[rank.process].host
           : by == SummaryBy::kRole ? role_text(communicator)
                                    : communicator_text(communicator);
}

// What ranks of one group cost is not added up: often it is one delay. A row has that of its worst rank.
Table table_of_groups(const Run& run, const Timing& timing, const SlowCauses& slow, const StragglerOptions& options) {
    struct Group {
        const RankTiming* worst;
        size_t ranks = 0;
        size_t late = 0;
    };
    const char* const title = options.by == SummaryBy::kHost   ? "host"
                              : options.by == SummaryBy::kRole ? "role"
                                                               : "communicator";
    Table table{.columns = {{title, 8},
                            {"late ranks", 8, true},
                            {"worst rank", 4, true},
                            {"per step", 8, true},
                            {"of step", 7, true},
                            {"since", 5, true},
                            {"slow part", 0}}};
    std::vector<std::string> names;  // the worst first
    std::map<std::string, Group> groups;
    for (const RankTiming* rank : by_cost(timing)) {
        if (options.ranks.empty() || options.ranks.contains(rank->rank)) {
            const std::string name = group_of(run, options.by, *rank);
            const auto [group, inserted] = groups.try_emplace(name, Group{.worst = rank});
            if (inserted) {
                names.push_back(name);
            }
            ++group->second.ranks;
            group->second.late += rank->shape.pattern != LatePattern::kNone ? 1 : 0;
        }
    }
    for (const std::string& name : names) {
        const Group& group = groups.at(name);
        const TimeAxis& axis = timing.axes[group.worst->axis];
        table.rows.push_back({name, fmt::format("{} of {}", group.late, group.ranks), std::to_string(group.worst->rank),
                              fine_duration_text(cost_ns(slow, *group.worst, axis)),
                              fmt::format("{:.1f}%", 100 * share_of(slow, *group.worst, axis)),
                              since_text(slow, *group.worst, axis), group.worst->slow_part});
    }
    return table;
}

Section table_of(const Run& run, const Timing& timing, const SlowCauses& slow, const StragglerOptions& options) {
    const bool by_rank = options.by == SummaryBy::kRank;
    return {
        .id = "ranks",
        .title = "How late each rank is",
        .blocks = {by_rank ? table_of_ranks(run, timing, slow, options) : table_of_groups(run, timing, slow, options)}};
}

bool is_played(const SlowCauses& slow) { return slow.step_ns > 0 && !slow.by_period; }

// The basis of the numbers.
Section basis(const Run& run, const Timing& timing, const SlowCauses& slow) {
    const TimeAxis& axis = timing.axes.front();
    Section section{.id = "basis"};
    section.blocks.emplace_back(
        Paragraph{axis.keys.empty()
                      ? Sentence("the program marks no steps: numbers are those of calls (titan_step marks steps)")
                      : phrase("steps {} to {}, {} each in the {}", axis.keys.front(), axis.keys.back(),
                               fine_duration_text(step_length_ns(slow, axis)), is_played(slow) ? "mean" : "median")});
    if (const std::string clocks = timing.clocks.summary(); !clocks.empty()) {
        section.blocks.push_back(Paragraph{clocks});
    }
    if (!any_late(timing) && slow.causes.empty()) {
        section.blocks.push_back(Paragraph{"no rank is late by more than chance (--all shows how late each is)"});
    }
    if (const std::string unseen = unseen_text(run, timing); !unseen.empty()) {
        section.blocks.push_back(Paragraph{unseen});
    }
    return section;
}

}  // namespace

double step_length_ns(const SlowCauses& slow, const TimeAxis& axis) {
    return axis.steps && is_played(slow) ? slow.step_ns : axis.length_ns;
}

std::string straggler_report(const Run& run, const Timing& timing, const SlowCauses& slow,
                             const StragglerOptions& options, const TextStyle& style) {
    Document document;
    document.sections.push_back(headline(slow, timing));
    for (const SlowCause& cause : slow.causes) {
        document.sections.push_back(section_of(slow, cause));
    }
    if (timing.ranks.empty()) {
        const std::string why = unseen_text(run, timing);
        document.sections.push_back(
            {.id = "basis",
             .blocks = {Paragraph{why.empty() ? "no communicator has enough calls that nearly all its members have a "
                                                "record of: no ranks to compare"
                                              : why}}});
        return document_text(document, style);
    }
    document.sections.push_back(basis(run, timing, slow));
    if (options.all || !options.ranks.empty() || any_late(timing)) {
        document.sections.push_back(table_of(run, timing, slow, options));
    }
    return document_text(document, style);
}

std::string straggler_json(const Run& run, const Timing& timing, const SlowCauses& slow, const std::set<int>& ranks) {
    Json json;
    json["schema"] = kJsonSchema;
    json["step"] = nullptr;
    if (slow.why_none.empty()) {
        json["step"] = {{"ms", slow.step_ns * 1e-6},
                        {"steps", slow.steps},
                        {"first", slow.first_step},
                        {"source", slow.by_period ? "period" : "markers"}};
    }
    json["causes"] = mapped(slow.causes, cause_json);
    json["missing"] = slow.missing;
    if (!slow.why_none.empty()) {
        json["missing"].push_back(slow.why_none);
    }
    json["steps"] = nullptr;
    const TimeAxis& axis = timing.axes.front();
    if (!axis.keys.empty()) {
        json["steps"] = {
            {"first", axis.keys.front()}, {"last", axis.keys.back()}, {"length_ns", step_length_ns(slow, axis)}};
    }
    json["clocks"] = {{"summary", timing.clocks.summary()}, {"bound_ns", timing.clocks.largest_bound_ns()}};
    json["ranks"] = Json::array();
    for (const RankTiming& rank : timing.ranks) {
        if (ranks.empty() || ranks.contains(rank.rank)) {
            json["ranks"].push_back(rank_json(run, slow, rank, timing.axes[rank.axis]));
        }
    }
    const std::string why = unseen_text(run, timing);
    json["not_seen"] = why.empty() ? Json(nullptr) : Json(why);
    return json.dump(2) + "\n";
}

}  // namespace titan::analyzer

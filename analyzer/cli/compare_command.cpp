// titan-analyze compare: before and after a change, a restart or an incident.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "commands.h"
#include "comparison.h"
#include "document.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "starts.h"

namespace titan::analyzer {
namespace {

// --- Two sides of a comparison, for people and for machines.

struct CompareReportOptions {
    std::optional<double> fail_if_slower;  // as a share of 1
    bool all = false;                      // also rows that do not differ
};

constexpr size_t kShownRows = 20;
constexpr size_t kShownNames = 10;

constexpr std::array<const char*, 5> kCompared{"typical_step", "mean_step", "lateness", "part", "metric"};
constexpr std::array<const char*, 5> kKinds{"step", "span", "GPU", "host", "metric"};
constexpr std::array<const char*, 3> kGates{"passed", "slower", "cannot_tell"};

constexpr double kInTimes = 9.995;  // changes from here on are told as "12 times"

bool is_time(const ComparedRow& row) { return row.compared != Compared::kMetric; }

std::string value_text(const ComparedRow& row, double value) {
    return !is_time(row) ? fmt::format("{:.4g}", value)
           : value < 0   ? "-" + fine_duration_text(-value)
                         : fine_duration_text(value);
}

std::string percent_text(double share) {
    return std::abs(share) < kInTimes ? fmt::format("{:+.1f}%", 100 * share) : fmt::format("{:.3g} times", 1 + share);
}

std::string change_text(const ComparedRow& row, double change) {
    if (row.scale == Scale::kRatio) {
        return percent_text(change);
    }
    return (change >= 0 ? "+" : "") + value_text(row, change);
}

std::string interval_text(const ComparedRow& row) {
    return row.effect ? fmt::format("{} to {}", change_text(row, row.effect->low), change_text(row, row.effect->high))
                      : "-";
}

// In a word: what B is to A.
std::string word_of(const ComparedRow& row) {
    if (!row.effect) {
        return "too few";
    }
    if (!row.differs()) {
        return "-";
    }
    return !is_time(row)                         ? (row.is_more() ? "higher" : "lower")
           : row.compared == Compared::kLateness ? (row.is_more() ? "more" : "less")
                                                 : (row.is_more() ? "slower" : "faster");
}

std::string name_text(const ComparedRow& row) {
    switch (row.compared) {
        case Compared::kTypicalStep: return "typical " + row.name;
        case Compared::kMeanStep: return "mean " + row.name;
        case Compared::kMetric: return row.name + (row.paired ? "" : " (other steps)");
        default: return row.name;
    }
}

Table table_of(const std::vector<ComparedRow>& rows, bool all, bool with_places) {
    Table table{
        .columns =
            {{"what", 16}, {"A", 7, true}, {"B", 7, true}, {"change", 7, true}, {"95% interval", 16, true}, {"", 6}},
        .shown = all ? kAll : kShownRows};
    if (with_places) {
        table.columns.push_back({"where", 0});
    }
    for (const ComparedRow& row : rows) {
        if (!all && !row.differs()) {
            continue;
        }
        std::vector<std::string> cells{name_text(row),
                                       value_text(row, row.before),
                                       value_text(row, row.after),
                                       row.effect ? change_text(row, row.effect->change) : "-",
                                       interval_text(row),
                                       word_of(row)};
        if (with_places) {
            cells.push_back(row.where);
        }
        table.rows.push_back(std::move(cells));
    }
    return table;
}

uint64_t most_steps(const Side& side) {
    uint64_t most = 0;
    for (const auto& [rank, known] : side.ranks) {
        most = std::max(most, known.steps);
    }
    return most;
}

size_t hosts_of(const Side& side) {
    std::set<std::string> hosts;
    for (const auto& [rank, known] : side.ranks) {
        hosts.insert(known.host);
    }
    return hosts.size();
}

std::string side_text(const char* name, const Side& side) {
    std::string text =
        fmt::format("{}  {}attempt {}: {} on {}, {}", name, side.run.empty() ? "" : fmt::format("run {}, ", side.run),
                    side.attempt, many_counted(side.ranks.size(), "rank"), many_counted(hosts_of(side), "host"),
                    many_counted(most_steps(side), "step"));
    if (side.steps) {
        text += fmt::format(" of {}-{}", side.steps->first, side.steps->second);
    }
    for (const char* label : {"session_tag", "perf_tag"}) {
        if (const auto known = side.labels.find(label); known != side.labels.end()) {
            text += fmt::format(", {} {}", label, known->second);
        }
    }
    return text;
}

const ComparedRow* typical_of(const Comparison& comparison) {
    const auto row = std::ranges::find_if(
        comparison.steps, [](const ComparedRow& one) { return one.compared == Compared::kTypicalStep && one.effect; });
    return row == comparison.steps.end() ? nullptr : &*row;
}

// "10.2% longer", "17.3 times as long".
std::string size_text(const ComparedRow& row) {
    const bool is_times = row.scale == Scale::kRatio && std::abs(row.effect->change) >= kInTimes;
    const std::string text = change_text(row, is_times ? row.effect->change : std::abs(row.effect->change));
    return is_times ? text + " as long" : text.substr(1) + (row.is_more() ? " longer" : " less");
}

// The verdict on the typical step, or on the mean step if only that differs.
Section verdict(const Comparison& comparison) {
    Section section{.id = "steps"};
    const ComparedRow* row = typical_of(comparison);
    if (row == nullptr) {
        section.title = "STEP TIME UNKNOWN";
        section.tone = Tone::kCaution;
        section.lead = "it could not be compared";
        return section;
    }
    for (const ComparedRow& one : comparison.steps) {
        row = !row->differs() && one.differs() ? &one : row;
    }
    if (!row->differs()) {
        section.title = "NO DIFFERENCE";
        section.tone = Tone::kGood;
        section.lead = fmt::format("in step time beyond noise: {} (95%)", interval_text(*row));
    } else {
        section.title = row->is_more() ? "SLOWER" : "FASTER";
        section.tone = row->is_more() ? Tone::kAlarm : Tone::kGood;
        section.lead = fmt::format(
            "a step of B takes {}{}: {} (95%)", size_text(*row),
            row->compared == Compared::kMeanStep ? " in the mean; the typical step does not" : "", interval_text(*row));
    }
    section.blocks.emplace_back(table_of(comparison.steps, true, false));
    return section;
}

Section gate_section(const Comparison& comparison, double slower) {
    const std::string limit = fmt::format("{:.4g}%", 100 * slower);
    switch (gate_of(comparison, slower)) {
        case Gate::kSlower:
            return {.id = "gate",
                    .title = "FAILED",
                    .tone = Tone::kAlarm,
                    .lead = fmt::format("steps are slower by {} or more", limit)};
        case Gate::kPassed:
            return {.id = "gate",
                    .title = "PASSED",
                    .tone = Tone::kGood,
                    .lead = fmt::format("the typical step is not slower by {}", limit)};
        case Gate::kCannotTell: break;
    }
    return {.id = "gate",
            .title = "CANNOT TELL",
            .tone = Tone::kCaution,
            .lead = fmt::format("whether steps are slower by {}: {}", limit,
                                comparison.same_work ? "longer records, or a larger limit"
                                                     : "another perf_tag is another kind of run")};
}

Sentence list_text(const std::vector<std::string>& names) {
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
        text += (i == 0 ? "" : "; ") + names[i];
    }
    return names.size() > kShownNames ? text + fmt::format("; and {} more", names.size() - kShownNames) : text;
}

Section parts(const Comparison& comparison, bool all) {
    const auto differing = std::ranges::count_if(comparison.rows, [](const ComparedRow& row) { return row.differs(); });
    Section section{.id = "parts", .title = "Parts and metrics"};
    section.lead = fmt::format("{} of {} {}", differing, comparison.rows.size(),
                               verb_form(static_cast<uint64_t>(differing), "differs", "differ"));
    if (differing != 0 || all) {
        section.blocks.emplace_back(table_of(comparison.rows, all, false));
    }
    return section;
}

// "NCCL_ALGO: Ring -> Tree". Nothing where only one side's records tell settings, and of versions alone where one
// side's tell no variables: they need not be unset there.
std::vector<std::string> settings_apart(const Side& before, const Side& after) {
    const auto& a = before.settings;
    const auto& b = after.settings;
    std::vector<std::string> apart;
    if (a.empty() || b.empty()) {
        return apart;
    }
    const bool has_all = before.has_variables && after.has_variables;
    const auto value = [](const std::map<std::string, std::string>& of, const std::string& name) {
        const auto known = of.find(name);
        return known == of.end() || known->second.empty() ? std::string("not set") : known->second;
    };
    std::set<std::string> names;
    for (const auto* of : {&a, &b}) {
        for (const auto& [name, text] : *of) {
            names.insert(name);
        }
    }
    for (const std::string& name : names) {
        const bool is_told = has_all || (a.contains(name) && b.contains(name));
        if (is_told && value(a, name) != value(b, name)) {
            apart.push_back(fmt::format("{}: {} -> {}", name, value(a, name), value(b, name)));
        }
    }
    return apart;
}

void add_items(Document& document, const char* id, const char* title, const std::vector<std::string>& texts,
               size_t shown = kAll) {
    if (texts.empty()) {
        return;
    }
    Items items{.shown = shown};
    items.items.assign(texts.begin(), texts.end());
    document.sections.push_back({.id = id, .title = title, .blocks = {std::move(items)}});
}

std::vector<std::string> late_texts(const Comparison& comparison) {
    std::vector<std::string> texts;
    if (!comparison.newly_late.empty()) {
        texts.push_back("the others wait for " + ranks_text(comparison.newly_late) + " in B, and not in A");
    }
    if (!comparison.no_longer_late.empty()) {
        texts.push_back("the others wait for " + ranks_text(comparison.no_longer_late) + " in A, and not in B");
    }
    return texts;
}

std::vector<std::string> one_sided_texts(const Comparison& comparison) {
    std::vector<std::string> texts;
    if (!comparison.only_before.empty()) {
        texts.push_back("A: " + list_text(comparison.only_before).text());
    }
    if (!comparison.only_after.empty()) {
        texts.push_back("B: " + list_text(comparison.only_after).text());
    }
    return texts;
}

Json row_json(const ComparedRow& row) {
    Json json;
    json["compared"] = kCompared[static_cast<size_t>(row.compared)];
    if (row.compared == Compared::kPart) {
        json["kind"] = kKinds[static_cast<size_t>(row.kind)];
    }
    json["name"] = row.name;
    json["where"] = row.where.empty() ? Json(nullptr) : Json(row.where);
    const std::string unit = is_time(row) ? "_ns" : "";
    json["a" + unit] = number_or_word(row.before);
    json["b" + unit] = number_or_word(row.after);
    if (row.compared == Compared::kPart) {
        json["per_step_a"] = row.per_step_before;
        json["per_step_b"] = row.per_step_after;
        json["change_of_step"] = row.of_step;
    }
    if (row.compared == Compared::kMetric) {
        json["step_by_step"] = row.paired;
    }
    const bool ratio = row.scale == Scale::kRatio;
    json["change_is"] = ratio ? "ratio" : "difference";
    const auto put = [&](const char* key, double value) {
        json[key] = row.effect ? number_or_word(value) : Json(nullptr);
    };
    const Effect effect = row.effect.value_or(Effect{});
    put("change", effect.change);
    put("low", effect.low);
    put("high", effect.high);
    put("p", effect.chance);
    put("p_of_all_rows", row.chance_of_many);
    json["differs"] = row.effect ? Json(row.differs()) : Json(nullptr);
    return json;
}

Json rows_json(const std::vector<ComparedRow>& rows) { return mapped(rows, row_json); }

Json side_json(const Side& side) {
    const auto label = [&side](const char* name) {
        const auto known = side.labels.find(name);
        return known == side.labels.end() ? Json(nullptr) : Json(known->second);
    };
    return {{"run", side.run},
            {"attempt", side.attempt},
            {"world_size", side.world_size},
            {"ranks", mapped(side.ranks, [](const auto& one) { return one.first; })},
            {"missing_ranks", side.missing_ranks},
            {"hosts", hosts_of(side)},
            {"steps", most_steps(side)},
            {"session_tag", label("session_tag")},
            {"perf_tag", label("perf_tag")}};
}

Document compare_document(const Side& before, const Side& after, const Comparison& comparison,
                          const CompareReportOptions& options) {
    Document document;
    document.sections.push_back(
        {.id = "sides", .blocks = {Paragraph{side_text("A", before)}, Paragraph{side_text("B", after)}}});
    document.sections.push_back(verdict(comparison));
    if (options.fail_if_slower) {
        document.sections.push_back(gate_section(comparison, *options.fail_if_slower));
    }
    document.sections.push_back(parts(comparison, options.all));
    if (!comparison.groups.empty()) {
        document.sections.push_back({.id = "groups",
                                     .title = "Where it differs from all ranks",
                                     .blocks = {table_of(comparison.groups, options.all, true)}});
    }
    add_items(document, "late_ranks", "Late ranks", late_texts(comparison));
    add_items(document, "one_side", "Only one side has", one_sided_texts(comparison));
    add_items(document, "settings", "Settings that differ, A -> B", settings_apart(before, after), kShownNames);
    add_items(document, "limits", "To be aware of", comparison.notes);
    return document;
}

std::string compare_json(const Side& before, const Side& after, const Comparison& comparison,
                         const CompareReportOptions& options) {
    Json json;
    json["schema"] = kJsonSchema;
    json["a"] = side_json(before);
    json["b"] = side_json(after);
    json["gate"] = options.fail_if_slower
                       ? Json(kGates[static_cast<size_t>(gate_of(comparison, *options.fail_if_slower))])
                       : Json(nullptr);
    json["steps"] = rows_json(comparison.steps);
    json["rows"] = rows_json(comparison.rows);
    json["groups"] = rows_json(comparison.groups);
    json["only_a"] = comparison.only_before;
    json["only_b"] = comparison.only_after;
    json["ranks"] = comparison.ranks;
    json["newly_late"] = comparison.newly_late;
    json["no_longer_late"] = comparison.no_longer_late;
    json["settings"] = settings_apart(before, after);
    json["notes"] = comparison.notes;
    return json.dump(2) + "\n";
}

constexpr const char* kCompareFooter =
    R"(A is the first PATH, B the second. With one PATH, or for another part of either, options say what B is:
--with-run, --with-attempt, --with-start and --with-steps; what they do not say is as in A.

It compares the step (typical: the median; mean: with the rare long ones), the spans of the program, calls of NCCL by
operation, role of the communicator and size (kind GPU: time for which they were seen to run, host: time for which the
host was inside), the time that the job waits for late ranks in a step, and metrics (step by step, if both sides have
the same steps). Hosts and places in the job's grid are listed if they differ from all ranks. If both jobs have equally
many ranks, ranks that one side lacks are left out.

  change        of B against A; times in percent
  95% interval  contains the change, considering noise: steps resemble those before them, so 20 slices of consecutive
                steps (fewer in short records) are compared, not single steps
  slower, ...   more than noise, considering all that is compared, at least 1%, and for parts 0.5% of a step; - means
                no difference that could be detected, or none that matters

Both sides need at least 20 steps. Noise is the variation within the two records: differences from run to run, such as
the machines that the job got, are part of the change.

With --fail-if-slower the typical and the mean step are tested: at most 2.5% of equal runs are called slower. If the
program sets a perf_tag (titantrace.label), runs with different tags are listed, but never passed or failed.

With one PATH alone, B is the newest run there (or --run), and A the newest other one that has the label baseline=true
and the same perf_tag, as one-logger sets them.

examples:
  titan-analyze compare before/ after/
  titan-analyze compare main/ branch/ --fail-if-slower 3%      in CI
  titan-analyze compare runs/                                  the newest run with its baseline
  titan-analyze compare dumps/ --steps 100-200 --with-steps 300-400
  titan-analyze compare dumps/ --attempt 0 --with-attempt 1    before and after a restart
  titan-analyze compare before/ after/ --json | jq '.rows[] | select(.differs)'

Exit status: 0 no difference, 1 something differs, 2 unusable input or arguments. With --fail-if-slower: 0 not slower by
that much, 1 slower, 2 as above, 3 cannot tell: too few steps, too much noise, another perf_tag.)";

struct CompareArguments {
    CommonOptions common;
    std::string ranks, steps;
    std::string with_run, with_steps, fail_if_slower;
    int with_attempt = -1;
    int with_start = 0;
    uint64_t skip_steps = 0;
    bool json = false;
    ListingOptions tables;
    CompareReportOptions options;
};

struct WantedSide {
    CommonOptions common;
    WantedSteps steps;
};

// "3%" or "0.03".
std::optional<double> parse_share(const std::string& text) {
    if (text.empty()) {
        return std::nullopt;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
    if (error != std::errc() || (!rest.empty() && rest != "%") || !std::isfinite(value) || value < 0) {
        throw Unusable("--fail-if-slower takes a share of a step such as 3%, not '" + printable(text) + "'");
    }
    return rest.empty() ? value : value / 100;
}

// What the first process with that label says.
std::string label_of(const Run& run, std::string_view key) {
    const auto has_it = [key](const Process& process) { return !process.label(key).empty(); };
    const auto first = std::ranges::find_if(run.processes, has_it);
    return first == run.processes.end() ? std::string() : first->label(key);
}

// The newest run but the chosen one that says it is the baseline of its performance tag. Throws Unusable.
std::string find_baseline(const CommonOptions& common) {
    LoadOptions chosen = common.load_options(true);
    chosen.records_alone = true;  // labels tell
    const Run own = usable(load_run(chosen));
    const std::string tag = label_of(own, "perf_tag");
    const std::vector<AttemptOf> attempts = usable(all_attempts(chosen));
    std::set<std::string> seen = {own.id};
    for (auto one = attempts.rbegin(); one != attempts.rend(); ++one) {
        LoadOptions other = chosen;
        other.run = one->run;
        other.attempt.reset();
        other.start = 0;
        other.ring_directories.clear();
        const bool is_new = !one->run.empty() && seen.insert(one->run).second;
        const Result<Run> run = is_new ? load_run(other) : Error("");
        if (run && label_of(*run, "baseline") == "true" && label_of(*run, "perf_tag") == tag) {
            return one->run;
        }
    }
    throw Unusable(fmt::format(
        "compare needs a second path, or --with-run, --with-attempt, --with-start or --with-steps, to know what to "
        "compare with: no other run there has the label baseline=true{}",
        tag.empty() ? std::string() : " and perf_tag " + printable(tag)));
}

void choose_sides(const CompareArguments& arguments, WantedSide& a, WantedSide& b) {
    a.common = b.common = arguments.common;
    a.steps.skip = b.steps.skip = arguments.skip_steps;
    const auto with_steps = parse_steps(arguments.with_steps);
    a.steps.range = parse_steps(arguments.steps);
    b.steps.range = with_steps ? with_steps : a.steps.range;
    const std::vector<std::string>& paths = arguments.common.paths;
    const bool is_other =
        !arguments.with_run.empty() || arguments.with_attempt >= 0 || arguments.with_start != 0 || with_steps;
    if (paths.size() > 2) {
        throw Unusable("compare takes two paths, A and B");
    }
    a.common.paths = {paths.front()};
    b.common.paths = {paths.back()};
    if (paths.size() == 1 && !is_other) {
        a.common.run = find_baseline(b.common);
        a.common.attempt = -1;
        a.common.start = 0;
        return;
    }
    if (!arguments.with_run.empty()) {
        b.common.run = arguments.with_run;
    }
    if (arguments.with_attempt >= 0) {
        b.common.attempt = arguments.with_attempt;
    }
    // A start is one of a certain directory.
    if (arguments.with_start != 0 || b.common.run != a.common.run || b.common.attempt != a.common.attempt) {
        b.common.start = arguments.with_start;
    }
}

int run_compare(CompareArguments& arguments) {
    WantedSide wanted[2];
    const std::set<int> ranks = parse_ranks(arguments.ranks);
    arguments.options.fail_if_slower = parse_share(arguments.fail_if_slower);
    choose_sides(arguments, wanted[0], wanted[1]);
    Side sides[2];
    for (int i = 0; i < 2; ++i) {
        const auto run = load_run(wanted[i].common.load_options(true));
        if (!run) {
            return fail((i == 0 ? "A: " : "B: ") + run.error().text());
        }
        say_which_is_read(*run, wanted[i].common, i == 0 ? "A: " : "B: ");
        sides[i] = side_of(*run, wanted[i].steps, ranks, progress_bar("summing up", "ranks"));
        if (sides[i].roles.size() > 1) {
            return fail(fmt::format("{}: ranks count within roles ({}): choose one by --role", i == 0 ? "A" : "B",
                                    fmt::join(sides[i].roles, ", ")));
        }
        for (const std::string& problem : sides[i].problems) {
            say("titan-analyze: {}: {}\n", i == 0 ? "A" : "B", problem);
        }
    }
    const Comparison comparison = compare(sides[0], sides[1]);
    print_text(arguments.json ? compare_json(sides[0], sides[1], comparison, arguments.options)
                              : document_text(compare_document(sides[0], sides[1], comparison, arguments.options),
                                              terminal_style(arguments.tables)));
    if (arguments.options.fail_if_slower) {
        switch (gate_of(comparison, *arguments.options.fail_if_slower)) {
            case Gate::kPassed: return kExitHealthy;
            case Gate::kSlower: return kExitFindings;
            case Gate::kCannotTell: return kExitInconclusive;
        }
    }
    return comparison.differs() ? kExitFindings : kExitHealthy;
}

}  // namespace

Command compare_command(CommandLine& app) {
    const auto arguments = std::make_shared<CompareArguments>();
    CommandLine& command = app.command("compare", "Compare two runs, attempts or windows of steps.", kCompareFooter);
    command.option("PATH", arguments->common.paths, "A and B, each as for the diagnosis").required();
    add_run(command, arguments->common);
    command.option("--steps,--step", arguments->steps, "step or range of A, and of B without --with-steps");
    command.option("--with-run", arguments->with_run, "the run to compare with");
    command.option("--with-attempt", arguments->with_attempt, "the attempt to compare with").not_negative();
    command.option("--with-start", arguments->with_start, "the start to compare with").not_negative();
    command.option("--with-steps,--with-step", arguments->with_steps, "step or range to compare with");
    command.option("--skip-steps", arguments->skip_steps, "leave out the first N steps on record of either side")
        .between(0, 1'000'000'000);
    add_ranks(command, arguments->ranks);
    command.option("--fail-if-slower", arguments->fail_if_slower,
                   "exit status 1 if a step takes this much longer, such as 3%");
    command.flag("--all", arguments->options.all, "also rows that do not differ");
    add_table_options(command, arguments->tables,
                      command.flag("--json", arguments->json, "one JSON object, with all rows"));
    return {&command, [arguments] { return run_compare(*arguments); }};
}

}  // namespace titan::analyzer

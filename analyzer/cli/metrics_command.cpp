// titan-analyze metrics: what the program reports of itself, over ranks.
#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <utility>

#include "commands.h"
#include "host/json_value.h"
#include "host/listing.h"
#include "host/words.h"
#include "parts.h"
#include "records.h"
#include "report_parts.h"
#include "run.h"
#include "step_metrics.h"

namespace titan::analyzer {
namespace {

// --- Metrics by step, joined over ranks: a table, or JSON Lines.

struct MetricsOptions {
    std::set<int> ranks;  // empty: all
    std::string name;     // empty: all
    std::optional<std::pair<int64_t, int64_t>> steps;
    size_t last = 0;  // steps, 0: all
    bool json = false;
    ListingOptions table;
    ReadProgress progress{};
};

using format::MetricReduction;

std::string joined_how(MetricReduction reduction) {
    return reduction == MetricReduction::kNotTold ? "mean of newest" : std::string(format::name_of(reduction));
}

std::string extreme_text(double value, int rank) {
    return rank < 0 ? "-" : fmt::format("{} (rank {})", number_text(value), rank);
}

// "6 of 8, not 0-1; NaN or infinite on 3".
std::string ranks_cell(const StepMetric& metric) {
    std::string text = fmt::format("{} of {}", metric.reported, metric.reported + metric.missing.size());
    text += metric.missing.empty() ? "" : ", not " + rank_list(metric.missing);
    text += metric.not_on_record.empty() ? "" : "; " + rank_list(metric.not_on_record) + " not on record";
    return text + (metric.not_finite.empty() ? "" : "; not finite on " + rank_list(metric.not_finite));
}

Json json_of(const StepMetric& metric) {
    Json json;
    json["step"] = metric.step;
    json["metric"] = metric.name;
    json["role"] = metric.role;
    json["reduction"] = std::string(format::name_of(metric.reduction));
    json["value"] = metric.has_value ? number_or_word(metric.value) : Json(nullptr);
    json["realtime_ns"] = metric.newest_ns;
    json["values"] = metric.values;
    json["ranks_reported"] = metric.reported;
    json["ranks_missing"] = metric.missing;
    json["ranks_not_on_record"] = metric.not_on_record;
    json["ranks_not_finite"] = metric.not_finite;
    json["lowest"] = metric.lowest_rank < 0 ? Json(nullptr) : Json(metric.lowest);
    json["lowest_rank"] = metric.lowest_rank;
    json["highest"] = metric.highest_rank < 0 ? Json(nullptr) : Json(metric.highest);
    json["highest_rank"] = metric.highest_rank;
    return json;
}

StepMetrics metrics_of(const Run& run, const MetricsOptions& options, const Write& note) {
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    StepMetrics metrics;
    const auto add = [&](const ProcessRecords& records) { metrics.add(records, options.steps); };
    reader.visit_ours(options.ranks, add, options.progress);
    for (const std::string& problem : reader.problems()) {
        note(problem);
    }
    if (const std::string left_out = metrics.left_out(); !left_out.empty()) {
        note(left_out);
    }
    return metrics;
}

void keep_wanted(std::vector<StepMetric>& all, const MetricsOptions& options) {
    std::erase_if(all, [&](const StepMetric& metric) { return !options.name.empty() && metric.name != options.name; });
    std::set<int64_t> steps;
    for (const StepMetric& metric : all) {
        steps.insert(metric.step);
    }
    if (options.last != 0 && steps.size() > options.last) {
        const int64_t first = *std::prev(steps.end(), static_cast<std::ptrdiff_t>(options.last));
        std::erase_if(all, [first](const StepMetric& metric) { return metric.step < first; });
    }
}

// Calls write(text) with whole lines, and note(problem) for what could not be read. False: there are none.
bool report_metrics(const Run& run, const MetricsOptions& options, const Write& write, const Write& note) {
    const StepMetrics metrics = metrics_of(run, options, note);
    std::vector<StepMetric> all = metrics.joined();
    keep_wanted(all, options);
    const std::vector<int> without = missing_ranks(run, options.ranks);
    for (StepMetric& metric : all) {
        metric.not_on_record.insert(metric.not_on_record.end(), without.begin(), without.end());
        sort_unique(metric.not_on_record);
    }
    if (options.json) {
        for (const StepMetric& metric : all) {
            write(json_of(metric).dump() + "\n");
        }
        return !all.empty();
    }
    const std::vector<ListColumn> columns = {{"step", 6, true},          {"metric", 12}, {"value", 8, true},
                                             {"joined by", 9},           {"lowest", 10}, {"highest", 10},
                                             {"ranks that report it", 0}};
    check_sort({columns}, options.table);
    Rows rows;
    rows.reserve(all.size());
    std::map<std::string, const StepMetric*> names;
    for (const StepMetric& metric : all) {
        rows.push_back({metric.step < 0 ? "-" : std::to_string(metric.step), in_role(metric.role, metric.name),
                        metric.has_value ? number_text(metric.value) : "-", joined_how(metric.reduction),
                        extreme_text(metric.lowest, metric.lowest_rank),
                        extreme_text(metric.highest, metric.highest_rank), ranks_cell(metric)});
        names[in_role(metric.role, metric.name)] = &metric;
    }
    if (!all.empty()) {
        write(listing_text(columns, std::move(rows), options.table));
    }
    if (options.table.csv) {
        return !all.empty();
    }
    for (const auto& [name, metric] : names) {
        if (const std::vector<int> never = metrics.never_reported(*metric); !never.empty()) {
            write(fmt::format("{}: {} {} no value on record\n", name, ranks_text(never),
                              verb_form(never.size(), "has", "have")));
        }
    }
    return !all.empty();
}

constexpr const char* kMetricsFooter =
    R"(Each metric in each step, joined over the ranks as the program says (titan_metric_as, titantrace.metric with
reduce=): mean (weighted), sum, min, max, std, last or none; by default, the mean of each rank's newest value. The last
column counts the ranks that report the metric, and names the ranks of that step that do not. Markers are overwritten
(TITANTRACE_MARKERS), so some ranks may have no markers of older steps on record.

examples:
  titan-analyze metrics dumps/ --last 10
  titan-analyze metrics dumps/ --name loss --steps 50-70
  titan-analyze metrics dumps/ --json | jq -c 'select(.ranks_missing != [])'

Exit status: 0 metrics were listed, 1 none is on record, 2 unusable input or arguments.)";

struct MetricsArguments {
    CommonOptions common;
    std::string ranks, steps;
    MetricsOptions options;
};

int run_metrics(MetricsArguments& arguments) {
    arguments.options.ranks = parse_ranks(arguments.ranks);
    arguments.options.steps = parse_steps(arguments.steps);
    arguments.options.progress = progress_bar("summing up", "ranks");
    return report_run_with_journals(arguments.common,
                                    "no metrics are on record (titan_metric, titantrace.metric), or none fits",
                                    [&](const Run& run, const Write& print, const Write& note) {
                                        return report_metrics(run, arguments.options, print, note);
                                    });
}

}  // namespace

Command metrics_command(CommandLine& app) {
    const auto arguments = std::make_shared<MetricsArguments>();
    CommandLine& command =
        app.command("metrics", "List the program's metrics, joined over ranks step by step.", kMetricsFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    command.option("--name", arguments->options.name, "only this metric");
    add_steps(command, arguments->steps);
    command.option("--last", arguments->options.last, "only the newest N steps");
    MetricsOptions& options = arguments->options;
    add_table_options(command, options.table,
                      command.flag("--json", options.json, "JSON Lines, one object per step and metric"));
    return {&command, [arguments] { return run_metrics(*arguments); }};
}

}  // namespace titan::analyzer

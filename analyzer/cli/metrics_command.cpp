// titan-analyze metrics: what the program reports of itself, over ranks.
#include "metrics_report.h"

#include <memory>

#include "commands.h"

namespace titan::analyzer {
namespace {

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
    if (!parse_ranks(arguments.ranks, arguments.options.ranks) ||
        !parse_steps(arguments.steps, arguments.options.steps)) {
        return kExitUnusable;
    }
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

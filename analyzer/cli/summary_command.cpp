// titan-analyze summary: what takes the time.
#include <memory>

#include "commands.h"
#include "summary_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kSummaryFooter =
    R"(One row for the steps, one for each span by name, and one for the calls of NCCL by operation and role of their
communicator; each over all ranks on record, what takes most in sum first.

  kind      step; span: of the program (titantrace.h, Python, NVTX); GPU: as long as calls were seen to run there; host:
            calls that no GPU was seen to run, as long as the host was inside
  of steps  share of the time of all steps of these ranks; spans lie in each other, and GPUs work beside hosts: the
            shares do not add up to 100%
  bus GB/s  by the factors of nccl-tests, with the time that members wait for each other
  slowest   the rank with the largest mean

Medians and percentiles are exact to 1%.

examples:
  titan-analyze summary dumps/
  titan-analyze summary dumps/ --skip-steps 10 --rank 0-7
  titan-analyze summary dumps/ --json | jq -r 'select(.kind == "span") | [.name, .mean_ns] | @tsv'

Exit status: 0 there is a summary, 1 nothing that it sums up is on record, 2 unusable input or arguments.)";

struct SummaryArguments {
    CommonOptions common;
    std::string ranks, steps;
    SummaryReportOptions options;
};

int run_summary(SummaryArguments& arguments) {
    SummaryReportOptions& options = arguments.options;
    if (!parse_ranks(arguments.ranks, options.ranks) || !parse_steps(arguments.steps, options.what.steps)) {
        return kExitUnusable;
    }
    return report_run_with_journals(
        arguments.common, "no steps, spans or calls are on record, or none fits",
        [&](const Run& run, const auto& print) { return report_summary(run, options, print); });
}

}  // namespace

Command summary_command(CommandLine& app) {
    const auto arguments = std::make_shared<SummaryArguments>();
    CommandLine& command = app.command("summary", "Sum up steps, spans and calls over all ranks.", kSummaryFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    command.option("--step", arguments->steps, "step or range");
    command.option("--skip-steps", arguments->options.what.skip_steps, "leave out the first N steps on record")
        .between(0, 1'000'000'000);
    command.option("--top", arguments->options.most, "rows of each kind, 0 for all").show_default();
    command.flag("--json", arguments->options.json, "JSON Lines, one object per row");
    return {&command, [arguments] { return run_summary(*arguments); }};
}

}  // namespace titan::analyzer

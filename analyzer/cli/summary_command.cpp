// titan-analyze summary: what takes the time, and how much of it is training.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brief_lines.h"
#include "commands.h"
#include "goodput.h"
#include "records.h"
#include "step_metrics.h"
#include "summary.h"
#include "summary_report.h"

namespace titan::analyzer {
namespace {

// Sums up these ranks, or all if none is given, without lines that have nothing on record. Calls note(problem) for each
// record that could not be read.
std::vector<std::string> lines_of(const Run& run, const std::set<int>& ranks, const Write& note,
                                  const ReadProgress& progress) {
    Symbols symbols(Symbols::Search::kNearby);
    RecordReader reader(run, symbols);
    Summary summary(run, {});
    StepMetrics metrics;
    AttemptReader times(run, nullptr);
    const auto add = [&](const ProcessRecords& records) {
        summary.add(records);
        if (!records.process().source.is_flight_recorder) {
            metrics.add(records);
            times.add(records);
        }
    };
    reader.visit_all(ranks, add, progress);
    for (const std::string& problem : reader.problems()) {
        note(problem);
    }
    if (const std::string left_out = metrics.left_out(); !left_out.empty()) {
        note(left_out);
    }
    return brief_lines(summary, metrics, times.times());
}

constexpr const char* kSummaryFooter =
    R"(One row for the steps, one for each span by name, and one for the calls of NCCL by operation and role of their
communicator; each over all ranks on record, the largest sum first. Then one row for each metric, and the throughput of
the job.

  kind      step; span: of the program (titantrace.h, Python, NVTX); GPU: time for which calls were seen to run there;
            host: calls that no GPU was seen to run, time for which the host was inside
  count     "24 of 72": the other calls were over at the next look at the GPU, so their duration is unknown;
            TITANTRACE_GPU_PROGRESS=timing measures all
  of steps  share of the time of all steps of these ranks; the shares do not add up to 100%, because spans are nested
            and GPUs work beside hosts
  bus GB/s  by the factors of nccl-tests, with the time that members wait for each other
  slowest   the rank with the largest mean

Medians and percentiles are exact to 1%. If a rank marks no steps, the period after which its calls repeat counts as a
step: "period of 12 calls".

Tokens per second need --tokens-per-step, or the label tokens_per_step (titantrace.label); MFU also needs
--flops-per-token, or the label flops_per_token (about 6 for each parameter), and a GPU whose peak is known, or
--peak-tflops.

--goodput lists the attempts of the run instead, and how much of their time is training that was not done again:

  start        from the first call or marker to the first step; a process that marks no step stays in it
  compile, checkpoints, data, validation   spans of these phases on the thread that marks steps; their names are
               in docs/reference/records.md
  training     the rest of the steps
  end          after the newest step has taken as long as steps do: a hang, or the shutdown
  done again   training of steps that the next attempt does again, because no checkpoint held them
  pause        until the next attempt begins

--session TAG treats all runs in the directories with that label session_tag (one-logger sets it) as attempts of one
job.

Times are means over the ranks of an attempt. An attempt that ended well left a record only if it wrote a journal
(TITANTRACE_JOURNAL_MIB) or dumped.

examples:
  titan-analyze summary dumps/
  titan-analyze summary dumps/ --skip-steps 10 --rank 0-7
  titan-analyze summary dumps/ --tokens-per-step 4194304 --flops-per-token 48e9
  titan-analyze summary dumps/ --brief
  titan-analyze summary dumps/ --by host --sort=-mean
  titan-analyze summary dumps/ --goodput
  titan-analyze summary jobs/ --session llama-70b
  titan-analyze summary dumps/ --json | jq -r 'select(.kind == "span") | [.name, .mean_ns] | @tsv'

Exit status: 0 there is a summary, 1 the record has nothing to sum up, 2 unusable input or arguments.)";

struct SummaryArguments {
    CommonOptions common;
    std::string ranks, steps;
    SummaryReportOptions options;
    std::string by;
    bool goodput = false;
    bool brief = false;
    std::string session;
};

bool print_brief(const Run& run, const std::set<int>& ranks, const Write& print, const Write& note) {
    const std::vector<std::string> lines = lines_of(run, ranks, note, progress_bar("summing up", "ranks"));
    std::ranges::for_each(lines, [&print](const std::string& line) { print(line + "\n"); });
    return !lines.empty();
}

int run_goodput(const CommonOptions& common, const SummaryReportOptions& options, const std::string& session) {
    const std::vector<AttemptTimes> attempts = usable(
        read_attempts(common.load_options(), {.ranks = options.ranks, .session = session, .progress = options.progress},
                      [](const std::string& why) { say("titan-analyze: {}\n", why); }));
    if (attempts.empty()) {
        say("titan-analyze: no attempt has a record of ours{}\n",
            session.empty() ? "" : " and says this session_tag (titantrace.label)");
        return kExitFindings;
    }
    report_goodput(attempts, options.json, options.table, print_text);
    return kExitHealthy;
}

int run_summary(SummaryArguments& arguments) {
    SummaryReportOptions& options = arguments.options;
    options.ranks = parse_ranks(arguments.ranks);
    options.what.steps.range = parse_steps(arguments.steps);
    options.what.by = parse_by(arguments.by, options.what.by);
    options.progress = progress_bar("summing up", "ranks");
    if (arguments.goodput || !arguments.session.empty()) {
        return run_goodput(arguments.common, options, arguments.session);
    }
    return report_run_with_journals(arguments.common, "no steps, spans, calls or metrics are on record, or none fits",
                                    [&](const Run& run, const Write& print, const Write& note) {
                                        return arguments.brief ? print_brief(run, options.ranks, print, note)
                                                               : report_summary(run, options, print, note);
                                    });
}

}  // namespace

Command summary_command(CommandLine& app) {
    const auto arguments = std::make_shared<SummaryArguments>();
    CommandLine& command =
        app.command("summary", "Sum up steps, spans, calls and metrics over all ranks.", kSummaryFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    add_steps(command, arguments->steps);
    add_by(command, arguments->by, "role");
    command.option("--skip-steps", arguments->options.what.steps.skip, "leave out the first N steps on record")
        .between(0, 1'000'000'000);
    WorkOfAStep& work = arguments->options.what.work;
    command.option("--tokens-per-step", work.tokens_per_step, "tokens that all ranks together take in a step")
        .between(0, 1e15);
    command.option("--flops-per-token", work.flops_per_token, "arithmetic operations of a token, forward and backward")
        .between(0, 1e18);
    command.option("--peak-tflops", work.peak_tflops, "peak of one GPU (default: BF16 without sparsity)")
        .between(0, 1e9);
    command.option("--top", arguments->options.most, "rows of each kind, 0 for all").show_default();
    const CommandOption goodput = command.flag("--goodput", arguments->goodput,
                                               "all attempts of the run, and how much of their time is training");
    command.option("--session", arguments->session, "--goodput of all runs with this label session_tag");
    const CommandOption json = command.flag("--json", arguments->options.json, "JSON Lines, one object per row");
    command.flag("--brief", arguments->brief, "three lines: steps, the longest spans, metrics")
        .excludes(goodput)
        .excludes(json);
    add_table_options(command, arguments->options.table, json);
    return {&command, [arguments] { return run_summary(*arguments); }};
}

}  // namespace titan::analyzer

// titan-analyze stragglers: why a job is slow, what the step would take without that, and which ranks are late.

#include <memory>

#include "commands.h"
#include "keep_steps.h"
#include "late_ranks.h"
#include "straggler_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kStragglerFooter =
    R"(The recorded steps are replayed without each cause: the difference is what the cause costs.
Causes: a slow rank (its host, its GPU, throttled, beside another process), a slow host or link, uneven pipeline stages
or sequences, garbage collection, allocation, compilation, data, checkpoints, everyone at once (docs/use/stragglers.md).

The table has the ranks that join their collectives late:

  per step      what the step would gain without it
  of step       the same as a share
  pattern       persistent, every N steps, irregular, one-off; - is chance
  since         the first step (#N: the first call, if the program marks no steps), if the record holds an earlier one
  seen          GPU: when the GPU reached the call; host: when the host made it (TITANTRACE_GPU_PROGRESS=off)
  slow part     the part that takes longer in its steps than in those of its peers

Needs records of a job that runs or ran: kill -USR1 of any rank dumps all ranks. Marked steps and spans (titantrace.h,
NVTX) show which part is slow; TITANTRACE_GPU_PROGRESS=timing gives starts to 0.1 ms instead of 2 ms. PyTorch's Flight
Recorder files show late ranks if TORCH_NCCL_ENABLE_TIMING=1 was set, by how long calls take on each GPU.

examples:
  titan-analyze stragglers dumps/
  titan-analyze stragglers dumps/ --all
  titan-analyze stragglers dumps/ --rank 3,7            how late these ranks are
  titan-analyze stragglers dumps/ --steps 100-400       only these steps: without the warm-up
  titan-analyze stragglers dumps/ --by host
  titan-analyze stragglers dumps/ --json | jq '.causes[] | {class, ranks, step_ms, step_ms_without}'

Exit status: 0 nothing costs more than chance, 1 something does, 2 unusable input.)";

struct StragglerArguments {
    CommonOptions common;
    std::string ranks, steps, by;
    StragglerOptions options;
    bool json = false;
    ListingOptions tables;
};

int run_stragglers(StragglerArguments& arguments) {
    StragglerOptions& options = arguments.options;
    options.ranks = parse_ranks(arguments.ranks);
    options.by = parse_by(arguments.by, options.by);
    const auto steps = parse_steps(arguments.steps);
    Run run = load_chosen(arguments.common);
    if (steps && !keep_steps(run, *steps)) {
        return fail("--steps: none of these steps is on record (titan_step marks steps)");
    }
    const auto [timing, slow] = slowness_of(run);
    print_text(arguments.json ? straggler_json(run, timing, slow, options.ranks)
                              : straggler_report(run, timing, slow, options, terminal_style(arguments.tables)));
    return any_late(timing) || !slow.causes.empty() ? kExitFindings : kExitHealthy;
}

}  // namespace

Command stragglers_command(CommandLine& app) {
    const auto arguments = std::make_shared<StragglerArguments>();
    CommandLine& command =
        app.command("stragglers", "Show why a job is slow, and what a step would take without that.", kStragglerFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    add_steps(command, arguments->steps);
    add_by(command, arguments->by, "rank");
    command.flag("--all", arguments->options.all, "all ranks, not only those that cost most");
    add_table_options(command, arguments->tables,
                      command.flag("--json", arguments->json, "one JSON object, with all ranks"));
    return {&command, [arguments] { return run_stragglers(*arguments); }};
}

}  // namespace titan::analyzer

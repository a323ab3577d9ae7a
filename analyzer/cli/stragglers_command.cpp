// titan-analyze stragglers: late ranks, and what they cost.
#include "analyze_timing.h"
#include "timing.h"

#include <memory>

#include "commands.h"
#include "straggler_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kStragglerFooter =
    R"(A rank is late in a collective by what it comes after the median of the ranks that do the same work; time that
another rank held it in another collective is left out. What is lost is what the others wait for that rank alone.

  median, p99   how late it is, over the sampled calls of all its communicators
  lost          how long the job waited for it in the steps that the records hold
  pattern       persistent, every N steps, irregular, one-off; - is chance
  since         the first step (#N: the first call, where the program marks no steps)
  seen          GPU: when the GPU came to the call; host: when the host made it (TITANTRACE_GPU_PROGRESS=off)
  slow part     what takes longer in its steps than in those of its peers

Needs records of a job that runs or ran: kill -USR1 any rank dumps all of them. Marked steps and spans (titantrace.h,
NVTX) tell which part is slow; TITANTRACE_GPU_PROGRESS=timing tells starts to 0.1 ms instead of 2 ms. PyTorch's Flight
Recorder dumps tell who is late where TORCH_NCCL_ENABLE_TIMING=1 was set, by how long calls take on each GPU.

examples:
  titan-analyze stragglers dumps/
  titan-analyze stragglers dumps/ --all
  titan-analyze stragglers dumps/ --json | jq '.ranks[] | select(.pattern != "none")'

Exit status: 0 nobody is a straggler and no collective is slow, 1 somebody or something is, 2 unusable input.)";

struct StragglerArguments {
    CommonOptions common;
    bool all = false;
    bool json = false;
};

int run_stragglers(const StragglerArguments& arguments) {
    const auto run = load_run(arguments.common.load_options());
    if (!run) {
        return fail(run.error().text());
    }
    const Timing timing = analyze_timing(*run);
    print_text(arguments.json ? straggler_json(*run, timing)
                              : straggler_report(*run, timing, arguments.all, terminal_style()));
    bool any = !timing.slow.empty();
    for (const RankTiming& rank : timing.ranks) {
        any |= rank.shape.pattern != LatePattern::kNone;
    }
    return any ? kExitFindings : kExitHealthy;
}

}  // namespace

Command stragglers_command(CommandLine& app) {
    const auto arguments = std::make_shared<StragglerArguments>();
    CommandLine& command =
        app.command("stragglers", "Show which ranks the others wait for, step after step.", kStragglerFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    command.flag("--all", arguments->all, "all ranks, not only those that cost most");
    command.flag("--json", arguments->json, "one JSON object, with all ranks");
    return {&command, [arguments] { return run_stragglers(*arguments); }};
}

}  // namespace titan::analyzer

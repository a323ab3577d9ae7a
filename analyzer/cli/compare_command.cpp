// titan-analyze compare: before and after a change, a restart or an incident.
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "commands.h"
#include "compare_report.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

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

examples:
  titan-analyze compare before/ after/
  titan-analyze compare main/ branch/ --fail-if-slower 3%      in CI
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

// "3%" or "0.03". False: it said what is wrong.
bool parse_share(const std::string& text, std::optional<double>& share) {
    if (text.empty()) {
        return true;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
    if (error != std::errc() || (!rest.empty() && rest != "%") || !std::isfinite(value) || value < 0) {
        fail("--fail-if-slower takes a share of a step such as 3%, not '" + printable(text) + "'");
        return false;
    }
    share = rest.empty() ? value : value / 100;
    return true;
}

// False: it said what is wrong.
bool choose_sides(const CompareArguments& arguments, WantedSide& a, WantedSide& b) {
    a.common = b.common = arguments.common;
    a.steps.skip = b.steps.skip = arguments.skip_steps;
    std::optional<std::pair<int64_t, int64_t>> with_steps;
    if (!parse_steps(arguments.steps, a.steps.range) || !parse_steps(arguments.with_steps, with_steps)) {
        return false;
    }
    b.steps.range = with_steps ? with_steps : a.steps.range;
    const std::vector<std::string>& paths = arguments.common.paths;
    const bool is_other =
        !arguments.with_run.empty() || arguments.with_attempt >= 0 || arguments.with_start != 0 || with_steps;
    if (paths.size() > 2 || (paths.size() == 1 && !is_other)) {
        fail(paths.size() > 2 ? "compare takes two paths, A and B"
                              : "compare needs a second path, or --with-run, --with-attempt, --with-start or "
                                "--with-steps, to know what to compare with");
        return false;
    }
    a.common.paths = {paths.front()};
    b.common.paths = {paths.back()};
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
    return true;
}

int run_compare(CompareArguments& arguments) {
    WantedSide wanted[2];
    std::set<int> ranks;
    if (!parse_ranks(arguments.ranks, ranks) ||
        !parse_share(arguments.fail_if_slower, arguments.options.fail_if_slower) ||
        !choose_sides(arguments, wanted[0], wanted[1])) {
        return kExitUnusable;
    }
    Side sides[2];
    for (int i = 0; i < 2; ++i) {
        LoadOptions load = wanted[i].common.load_options();
        load.with_journals = true;
        const auto run = load_run(load);
        if (!run) {
            return fail((i == 0 ? "A: " : "B: ") + run.error().text());
        }
        sides[i] = side_of(*run, wanted[i].steps, ranks, progress_bar("summing up", "ranks"));
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

// titan-analyze stacks PATH...: where every thread of every rank stood.
#include "named_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "commands.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "host_threads.h"
#include "records.h"
#include "stacks_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kFooter =
    R"(Each dump contains the stacks of all threads of its process (TITANTRACE_STACKS=off leaves them out). Names of
functions come from the files that the process had loaded, if they are on this machine and are the same build. Source
lines need their debug information, which may also be in /usr/lib/debug or, with DEBUGINFOD_URLS set, on a server.

examples:
  titan-analyze stacks dumps/                where the main threads of all ranks are, merged into one tree
  titan-analyze stacks dumps/ --rank 3       every thread of rank 3
  titan-analyze stacks dumps/ --json | jq '.processes[0].threads[0].frames'
  titan-analyze stacks dumps/ --folded all.folded                 the samples of all ranks, for flame graphs
  titan-analyze stacks dumps/ --folded 3.folded --diff-rank 3     rank 3 beside the ranks that do the same work)";

struct Arguments {
    CommonOptions common;
    std::string ranks;
    StacksView view;
    bool json = false;
    std::string folded;
    int diff_rank = -1;
};

int write_folded(const std::string& path, const FoldedStacks& folded, const std::string& what) {
    if (path == "-") {
        print_text(folded.text);
        return kExitHealthy;
    }
    const std::string text = printable(folded.text, Keep::kOwnLines);
    if (const auto error = write_private_file(path, std::as_bytes(std::span(text)))) {
        return fail(error->within(printable(path)).text());
    }
    print("{}: {} of {}{}\n", printable(path), counted(folded.stacks, "stack"), counted(folded.samples, "sample"),
          what);
    return kExitHealthy;
}

constexpr const char* kNoSamples = "no samples of stacks: set TITANTRACE_STACK_SAMPLES_S=1 in the job";

std::vector<ProcessStacks> stacks_of(const Run& run, const std::set<int>& ranks, Symbols& symbols) {
    RecordReader reader(run, symbols);
    std::vector<ProcessStacks> all;
    for (const Process& process : run.processes) {
        if (is_asked_for(run, process, ranks)) {
            all.push_back(reader.stacks(process));
        }
    }
    return all;
}

int fold(const Arguments& arguments, const Run& run, const std::set<int>& ranks) {
    if (arguments.diff_rank >= 0) {
        const FoldedStacks folded = fold_difference(run, arguments.diff_rank);
        if (folded.text.empty()) {
            return fail(folded.samples == 0 ? fmt::format("rank {}: {}", arguments.diff_rank, kNoSamples)
                                            : "no other rank has samples of stacks");
        }
        return write_folded(arguments.folded, folded,
                            fmt::format(" of rank {}, beside {}", arguments.diff_rank, counted(folded.peers, "peer")));
    }
    FoldedStacks folded = fold_samples(run, ranks);
    if (folded.samples != 0) {
        return write_folded(arguments.folded, folded, " of " + counted(folded.ranks, "rank"));
    }
    Symbols symbols(Symbols::Search::kEverywhere);
    folded = fold_dumped(stacks_of(run, ranks, symbols), arguments.view.all_threads);
    if (folded.samples == 0) {
        return fail("no stacks in these records");
    }
    say("titan-analyze: {}; each stack of the dumps counts once\n", kNoSamples);
    return write_folded(arguments.folded, folded, " of " + counted(folded.ranks, "rank"));
}

int run_stacks(const Arguments& arguments) {
    const std::set<int> ranks = parse_ranks(arguments.ranks);
    const Run run = load_chosen(arguments.common);
    if (!arguments.folded.empty()) {
        return fold(arguments, run, ranks);
    }
    if (arguments.diff_rank >= 0) {
        return fail("--diff-rank needs --folded FILE");
    }
    Symbols symbols(Symbols::Search::kEverywhere);
    const std::vector<ProcessStacks> all = stacks_of(run, ranks, symbols);
    if (all.empty()) {
        say("titan-analyze: no record of {}; there are {}\n", ranks_text({ranks.begin(), ranks.end()}),
            ranks_text(run.ranks));
        return kExitFindings;
    }
    StacksView view = arguments.view;
    view.list = view.list || all.size() == 1;
    print_text(arguments.json ? stacks_json_report(all, symbols.problems())
                              : stacks_report(all, symbols.problems(), view, terminal_style()));
    return kExitHealthy;
}

}  // namespace

Command stacks_command(CommandLine& app) {
    const auto arguments = std::make_shared<Arguments>();
    CommandLine& command = app.command("stacks", "Show where every thread of the ranks was.", kFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    command.flag("--list", arguments->view.list, "thread by thread (default with one rank), not merged");
    command.flag("--all-threads", arguments->view.all_threads, "merge all threads, not the main ones only");
    const CommandOption json = command.flag("--json", arguments->json, "one JSON object, with all addresses");
    command
        .option(
            "--folded", arguments->folded,
            "a file for flame graphs: each stack that samples saw (TITANTRACE_STACK_SAMPLES_S), and how often; - is "
            "standard output")
        .excludes(json);
    command
        .option("--diff-rank", arguments->diff_rank,
                "with --folded: two counts, of the ranks that do the same work and of this one")
        .not_negative();
    return {&command, [arguments] { return run_stacks(*arguments); }};
}

}  // namespace titan::analyzer

// titan-analyze stacks PATH...: where every thread of every rank stood.
#include "named_stacks.h"

#include <memory>
#include <set>

#include "commands.h"
#include "host/words.h"
#include "records.h"
#include "stacks_report.h"

namespace titan::analyzer {
namespace {

constexpr const char* kFooter =
    R"(Each dump carries the stacks of all threads of its process (TITANTRACE_STACKS=off leaves them out). Names of
functions come from the files that the process had loaded, where they lie on this machine and are the same build; source
lines need their debug information, which is also found in /usr/lib/debug and, with DEBUGINFOD_URLS set, from a server.

examples:
  titan-analyze stacks dumps/                where the main threads of all ranks stand, merged into one tree
  titan-analyze stacks dumps/ --rank 3       every thread of rank 3
  titan-analyze stacks dumps/ --json | jq '.processes[0].threads[0].frames')";

struct Arguments {
    CommonOptions common;
    std::string ranks;
    StacksView view;
    bool json = false;
};

int run_stacks(const Arguments& arguments) {
    std::set<int> ranks;
    if (!parse_ranks(arguments.ranks, ranks)) {
        return kExitUnusable;
    }
    const auto run = load_run(arguments.common.load_options());
    if (!run) {
        return fail(run.error().text());
    }
    Symbols symbols(Symbols::Search::kEverywhere);
    RecordReader reader(*run, symbols);
    std::vector<ProcessStacks> all;
    for (const Process& process : run->processes) {
        if (ranks.empty() || ranks.contains(process.rank)) {
            all.push_back(reader.stacks(process));
        }
    }
    if (all.empty()) {
        say("titan-analyze: no record of {}; there are {}\n", ranks_text({ranks.begin(), ranks.end()}),
            ranks_text(run->ranks));
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
    command.flag("--json", arguments->json, "one JSON object, with all addresses");
    return {&command, [arguments] { return run_stacks(*arguments); }};
}

}  // namespace titan::analyzer

// titan-analyze show: the recorded calls.
#include "show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "host/words.h"
#include "record_fields.h"

namespace titan::analyzer {
namespace {

constexpr const char* kShowFooter = R"(examples:
  titan-analyze show dumps/ --rank 3 --last 20
  titan-analyze show dumps/ --comm dp:0 --seq 40-42 --rank 0-3
  titan-analyze show dumps/ --state pending --op all_reduce
  titan-analyze show dumps/ --work --rank 3 --last 20      what was handed to the streams
  titan-analyze show dumps/ --channels --rank 3
  titan-analyze show dumps/ --markers --json | jq -c 'select(.marker == "metric") | [.rank,.step,.name,.value]'
  titan-analyze show dumps/ --steps 12 --json | jq -c '[.rank,.seq,.op]'

Exit status: 0 calls were listed, 1 no call fits, 2 unusable input or arguments.)";

struct ShowArguments {
    CommonOptions common;
    std::string ranks, sequences, steps;
    std::map<RecordKind, bool> chosen;
    ShowOptions options;
};

int run_show(ShowArguments& arguments) {
    arguments.options.ranks = parse_ranks(arguments.ranks);
    arguments.options.sequences = parse_range("--seq", "40-42", arguments.sequences);
    arguments.options.steps = parse_steps(arguments.steps);
    for (const auto& [kind, is_chosen] : arguments.chosen) {
        arguments.options.kind = is_chosen ? kind : arguments.options.kind;
    }
    const ShowOptions& options = arguments.options;
    const bool is_journaled = options.is_journaled();
    if (options.kind != RecordKind::kCollective &&
        (!options.op.empty() || !options.state.empty() || options.sequences || !options.communicator.empty() ||
         (options.steps && !is_journaled))) {
        return fail(
            "--work, --channels, --cuda-calls, --markers, --health, --labels, --step-sums, --step-calls and "
            "--health-extremes list no such calls: of the filters only --rank and --last apply, and --steps to what "
            "the journal has");
    }
    const bool is_logged = is_journaled || options.kind == RecordKind::kLabel;  // logs of torchtitan name roles
    const Run run = load_chosen(arguments.common, is_logged);
    const auto is_digest = [](const Process& process) { return process.source.is_digest; };
    if ((!is_journaled || run.journals.empty()) && !run.processes.empty() &&
        std::ranges::all_of(run.processes, is_digest)) {
        return fail("digests do not hold all calls in full: show the dumps");
    }
    const Shown shown = show(run, arguments.options, [](const std::string& line) { print_text(line); });
    for (const std::string& note : shown.notes) {
        say("titan-analyze: {}\n", note);
    }
    for (const Warning& warning : run.warnings) {
        if (warning.kind == WarningKind::kDamagedFile) {
            say("titan-analyze: {}\n", warning.summary);
        }
    }
    if (!shown.nothing.empty()) {
        say("titan-analyze: {}\n", shown.nothing);
        return kExitFindings;
    }
    return kExitHealthy;
}

}  // namespace

Command show_command(CommandLine& app) {
    const auto arguments = std::make_shared<ShowArguments>();
    CommandLine& command = app.command("show", "List recorded calls.", kShowFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    command.option(
        "--comm", arguments->options.communicator,
        "communicator: its name, the name before its number or its ranks (dp of dp:0), or the start of its id");
    command.option("--seq", arguments->sequences, "sequence number or range, such as 40-42");
    add_steps(command, arguments->steps);
    command.option("--state", arguments->options.state,
                   "entered, grouped, launching, enqueued, pending, started, finished, failed, returned, captured");
    command.option("--op", arguments->options.op, "operation, such as all_reduce or AllReduce");
    command.option("--last", arguments->options.last, "only the newest N of each rank").positive();
    std::vector<CommandOption> kinds;  // each excludes the others
    for (const RecordTable& table : record_tables()) {
        if (*table.option != '\0') {
            std::string meaning(table.meaning);
            meaning.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(meaning.front())));
            CommandOption option =
                command.flag(table.option, arguments->chosen[table.kind], fmt::format("instead of calls: {}", meaning));
            std::ranges::for_each(kinds, [&option](const CommandOption& other) { option.excludes(other); });
            kinds.push_back(option);
        }
    }
    ShowOptions& options = arguments->options;
    add_table_options(
        command, options.table,
        command.flag("--json", options.json, "JSON Lines, one object per record (docs/reference/records.md)"));
    return {&command, [arguments] { return run_show(*arguments); }};
}

}  // namespace titan::analyzer

// The command line: which command, and what becomes of an exception.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "formats/layout/ring_layout.h"
#include "host/mapped.h"
#include "host/program.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr const char* kMainFooter = R"(examples:
  titan-analyze dumps/                   the verdict for the newest run there
  titan-analyze /tmp/fr/                 PyTorch Flight Recorder files, pickled or JSON
  titan-analyze dumps/ --json | jq .verdict
  titan-analyze dumps/ --oneline         one line, for a chat or a log
  titan-analyze why 3 dumps/             what rank 3 does, what it waits for, where that leads
  titan-analyze dumps/ --list-runs       which runs and attempts there are
  titan-analyze dumps/ --run job-17 --attempt 1
  titan-analyze report dumps/ -o run.html   all of this as one page for a browser
  titan-analyze show dumps/ --rank 3 --last 20
  titan-analyze show dumps/ --comm dp:0 --seq 40-42
  titan-analyze metrics dumps/ --last 10 what the program reports: loss and so on, over ranks
  titan-analyze summary dumps/           what takes the time: steps, spans, collectives, over all ranks
  titan-analyze compare before/ after/   what a change made slower or faster, beyond noise; for CI, too
  titan-analyze timeline dumps/          all ranks on one clock, for https://ui.perfetto.dev
  titan-analyze stragglers dumps/        why the job is slow, and what each cause costs
  titan-analyze layout dumps/            which communicator is tp, dp, pp, and each rank's position
  titan-analyze stacks dumps/            where each thread of all ranks was
  titan-analyze watch dumps/             waits for dumps, and puts the verdict beside them
  titan-analyze fields                   what the records hold, field by field
  titan-analyze digest dumps/ --node --into digests/    on every node of a large job, then: titan-analyze digests/
  titan-analyze rings                    rings on this node, and whether their processes live
  titan-analyze collect --into dumps     save rings of dead processes as dumps
  titan-analyze clean dumps/ --older-than 7    remove rings and dumps of jobs that ended a week ago

Exit status: 0 nothing wrong, 1 findings, 2 unusable input or arguments, 3 cannot tell: too little of the
job is there.)";

int run_command_line(int argc, char** argv) {
    CommandLine app("titan-analyze", fmt::format("{} (reads ring format {}.x)", TITAN_VERSION, format::kRingMajor),
                    "Names the rank that a distributed GPU job waits for, and why, from its dumps and rings.",
                    kMainFooter);
    const Command diagnose = diagnose_command(app);
    const std::vector<Command> commands = subcommands(app);
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    report_errors_as_json(std::ranges::find(arguments, "--json") != arguments.end());
    try {
        if (const auto status = app.parse(argc, argv)) {
            return *status;
        }
    } catch (const CommandLineError& error) {
        return fail(error.what() + suggestion(app, arguments) + " (--help shows how)");
    }
    try {
        for (const Command& command : commands) {
            if (command.line->chosen()) {
                return command.run();
            }
        }
    } catch (const NoSuchColumn& error) {
        return fail(error.what());
    } catch (const Unusable& error) {
        return fail(error.what());
    }
    // A path that is not there may be a command.
    if (const std::string meant = suggestion(app, arguments); !meant.empty() && ::access(argv[1], F_OK) != 0) {
        return fail(printable(argv[1]) + " is neither a file nor a command" + meant);
    }
    return diagnose.run();
}

}  // namespace
// --- Commands and options in the wrong place, and commands that are misspelt.

namespace {

std::string command_line(const std::string& command, const std::vector<std::string>& arguments) {
    std::string text = "titan-analyze " + command;
    for (const std::string& argument : arguments) {
        text += " " + shell_quoted(printable(argument));
    }
    return text;
}

}  // namespace

std::string suggestion(const CommandLine& app, const std::vector<std::string>& arguments) {
    const auto find = [&](const auto& fits) -> const CommandLine* {
        const auto found = std::ranges::find_if(app.commands(), [&](const auto& command) { return fits(*command); });
        return found == app.commands().end() ? nullptr : found->get();
    };
    const auto without = [&](size_t index) {
        std::vector<std::string> rest = arguments;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(index));
        return rest;
    };
    if (arguments.empty() || find([&](const CommandLine& command) { return command.name() == arguments[0]; })) {
        return {};
    }
    if (arguments[0] == "version") {
        return "; did you mean: titan-analyze --version";
    }
    for (size_t i = 1; i < arguments.size(); ++i) {
        if (find([&](const CommandLine& command) { return command.name() == arguments[i]; })) {
            return "; the command comes first: " + command_line(arguments[i], without(i));
        }
    }
    std::vector<std::string> names = mapped(app.commands(), [](const auto& command) { return command->name(); });
    if (const std::string near = nearest_word(arguments[0], names); !near.empty() && !arguments[0].starts_with('-')) {
        return "; did you mean: " + command_line(near, without(0));
    }
    for (const std::string& argument : arguments) {
        const std::string option = argument.substr(0, argument.find('='));
        const auto has = [&](const CommandLine& command) {
            return option.starts_with("--") && command.has_option(option);
        };
        if (const CommandLine* command = !app.has_option(option) ? find(has) : nullptr) {
            return fmt::format("; {} is an option of a command: {}", option, command_line(command->name(), arguments));
        }
    }
    return {};
}

}  // namespace titan::analyzer

int main(int argc, char** argv) {
    return titan::run_program("titan-analyze", titan::analyzer::run_command_line, argc, argv);
}

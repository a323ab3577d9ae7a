// The command line: which command, and what becomes of an exception.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "analyzer/program.h"
#include "commands.h"
#include "formats/ring_layout.h"

namespace titan::analyzer {
namespace {

constexpr const char* kMainFooter = R"(examples:
  titan-analyze dumps/                   the verdict for the newest run in there
  titan-analyze /tmp/fr/                 PyTorch Flight Recorder files, pickled or JSON
  titan-analyze dumps/ --json | jq .verdict
  titan-analyze dumps/ --list-runs       which runs and attempts there are
  titan-analyze dumps/ --run job-17 --attempt 1
  titan-analyze show dumps/ --rank 3 --last 20
  titan-analyze show dumps/ --comm dp:0 --seq 40-42
  titan-analyze stragglers dumps/        who is late, step after step, and what it costs
  titan-analyze layout dumps/            which communicator is tp, dp, pp, and where each rank stands
  titan-analyze stacks dumps/            where the threads of all ranks stood
  titan-analyze digest dumps/ --node --into digests/    on every node of a large job, then: titan-analyze digests/
  titan-analyze rings                    rings on this node, and whether their processes live
  titan-analyze collect --into dumps     save rings of dead processes as dumps

Exit status: 0 nothing wrong, 1 findings, 2 unusable input or arguments.)";

int run_command_line(int argc, char** argv) {
    CLI::App app{"Says which rank a distributed GPU job waits for, and why, from the dumps and rings of titantrace."};
    app.name("titan-analyze");
    app.footer(kMainFooter);
    app.set_version_flag("--version", std::string("titan-analyze ") + TITAN_VERSION + " (reads ring format " +
                                          std::to_string(format::kRingMajor) + ".x)");
    const Command diagnose = diagnose_command(app);
    const Command subcommands[] = {show_command(app),   layout_command(app), stragglers_command(app),
                                   stacks_command(app), export_command(app), digest_command(app),
                                   rings_command(app),  collect_command(app)};
    app.require_subcommand(0, 1);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitHealthy : kExitUnusable;
    }
    for (const Command& command : subcommands) {
        if (command.app->parsed()) {
            return command.run();
        }
    }
    return diagnose.run();
}

}  // namespace
}  // namespace titan::analyzer

int main(int argc, char** argv) {
    return titan::analyzer::run_program("titan-analyze", titan::analyzer::run_command_line, argc, argv);
}

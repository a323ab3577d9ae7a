#include <memory>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {

std::vector<Command> subcommands(CommandLine& app) {
    return {why_command(app),        show_command(app),    whatif_command(app), summary_command(app),
            compare_command(app),    metrics_command(app), sql_command(app),    timeline_command(app),
            stragglers_command(app), layout_command(app),  stacks_command(app), report_command(app),
            watch_command(app),      fields_command(app),  digest_command(app), rings_command(app),
            collect_command(app),    clean_command(app),   help_command(app)};
}

// --- titan-analyze help [COMMAND]: what --help prints.

Command help_command(CommandLine& app) {
    const auto about = std::make_shared<std::string>();
    CommandLine& command = app.command("help", "Show the help of a command, or of all.",
                                       "examples:\n  titan-analyze help\n  titan-analyze help show");
    command.option("COMMAND", *about, "the command; none: the program and the list of its commands");
    return {&command, [about, &app] {
                if (about->empty()) {
                    print_text(app.help());
                    return kExitHealthy;
                }
                std::vector<std::string> names;
                for (const auto& known : app.commands()) {
                    if (known->name() == *about) {
                        print_text(known->help());
                        return kExitHealthy;
                    }
                    names.push_back(known->name());
                }
                const std::string near = nearest_word(*about, names);
                return fail(
                    "there is no command '" + printable(*about) + "'" +
                    (near.empty() ? "; titan-analyze help lists all" : "; did you mean: titan-analyze help " + near));
            }};
}

}  // namespace titan::analyzer

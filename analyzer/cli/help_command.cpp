// titan-analyze help [COMMAND]: what --help prints.
#include <memory>

#include "commands.h"
#include "host/words.h"

namespace titan::analyzer {

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

#include "commands.h"

namespace titan::analyzer {

std::vector<Command> subcommands(CommandLine& app) {
    return {why_command(app),        show_command(app),    whatif_command(app), summary_command(app),
            compare_command(app),    metrics_command(app), sql_command(app),    timeline_command(app),
            stragglers_command(app), layout_command(app),  stacks_command(app), report_command(app),
            watch_command(app),      fields_command(app),  digest_command(app), rings_command(app),
            collect_command(app),    clean_command(app),   help_command(app)};
}

}  // namespace titan::analyzer

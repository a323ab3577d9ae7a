// titan-verdict: titan-analyze without its subcommands, which the demo builds first.
#include "commands.h"

namespace titan::analyzer {

std::vector<Command> subcommands(CommandLine&) { return {}; }

}  // namespace titan::analyzer

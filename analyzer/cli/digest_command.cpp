// titan-analyze digest: the map step of an analysis of very many ranks.
#include "digests.h"

#include <algorithm>
#include <memory>

#include "commands.h"
#include "discover.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr const char* kDigestFooter =
    R"(Thousands of ranks are analyzed in two steps. Each node digests its own records; any launcher that starts one
command per node will do. Then one machine analyzes the digests, a few kB per rank, and comes to the same verdict as
from all dumps:

  srun --ntasks-per-node=1 titan-analyze digest dumps/ --node --into digests/
  titan-analyze digests/

  torchrun --nnodes ... --nproc-per-node 1 --no-python -- titan-analyze digest dumps/ --node --into digests/

--node takes everything recorded on this host: its dumps, and the rings of ranks that left no dump. A node without
records is no error, so that it does not end the work of other nodes. Digests may be digested again, mixed with dumps,
and moved.

Exit status: 0 done, 2 unusable input or arguments.)";

struct DigestArguments {
    CommonOptions common;
    DigestOptions options;
};

int run_digest(DigestArguments& arguments) {
    arguments.options.load = arguments.common.load_options();
    if (arguments.options.into.empty() == arguments.options.file.empty()) {
        return fail("choose a destination: --into DIR or --output FILE");
    }
    if (!arguments.options.file.empty() && !arguments.options.file.ends_with(".digest")) {
        return fail("the name of a digest must end in .digest: --output " +
                    shell_quoted(printable(arguments.options.file)) + ".digest");
    }
    const auto result = write_digests(arguments.options);
    if (!result) {
        // A node that has nothing must not end the others' work.
        const auto found = discover(arguments.options.load.paths);
        const bool nothing_here = arguments.options.only_this_node && found && found->groups.empty();
        say("titan-analyze: {}\n", result.error().text());
        return nothing_here ? kExitHealthy : kExitUnusable;
    }
    for (const std::string& problem : result->problems) {
        say("titan-analyze: {}\n", problem);
    }
    if (result->written.empty()) {
        say("titan-analyze: no record of this host was found: nothing to digest\n");
    }
    for (const std::string& path : result->written) {
        print("{}\n", printable(path));
    }
    if (!result->written.empty()) {
        say("{} in {}, {} bytes each\n", many_counted(result->processes, "process"),
            counted(result->written.size(), "file"),
            grouped_digits(result->bytes / std::max<size_t>(result->processes, 1)));
    }
    return kExitHealthy;
}

}  // namespace

Command digest_command(CommandLine& app) {
    const auto arguments = std::make_shared<DigestArguments>();
    CommandLine& command =
        app.command("digest", "Pack what a verdict needs into a few kB per rank, node by node.", kDigestFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    command.flag("--node", arguments->options.only_this_node, "only what was recorded on this host");
    command.option("--into", arguments->options.into, "a directory: DIR/<run>/<attempt>/<host>-<boot>.digest");
    command.option("-o,--output", arguments->options.file, "one file instead, its name ending in .digest");
    add_run(command, arguments->common);
    return {&command, [arguments] { return run_digest(*arguments); }};
}

}  // namespace titan::analyzer

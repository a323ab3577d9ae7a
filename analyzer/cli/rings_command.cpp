// titan-analyze rings, titan-analyze collect: the rings on this node.
#include "rings.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "commands.h"
#include "host/listing.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

std::string places_text(const RingDirectories& directories) {
    return printable(fmt::format("{}", fmt::join(directories, " or ")));
}

struct RingsArguments {
    CommonOptions common;
    bool json = false;
    ListingOptions tables;
};

int run_rings(const RingsArguments& arguments) {
    const RingDirectories directories = ring_directories(arguments.common.ring_directory);
    const std::vector<NodeRing> rings = list_rings(directories);
    if (arguments.json) {
        for (const NodeRing& ring : rings) {
            print_text(ring_as_json(ring));
        }
        return kExitHealthy;
    }
    if (rings.empty()) {
        print("no rings of this user in {}\n", places_text(directories));
        return kExitHealthy;
    }
    const std::vector<ListColumn> columns = {{"pid", 8, true},         {"process", 8},      {"rank", 6, true},
                                             {"silent for", 12, true}, {"run/attempt", 28}, {"ring", 0}};
    check_sort({columns}, arguments.tables);
    Rows rows;
    for (const NodeRing& ring : rings) {
        if (!ring.problem.empty()) {
            rows.push_back({"-", "-", "-", "-", "cannot be read", ring.problem});
            continue;
        }
        rows.push_back({std::to_string(ring.pid), liveness_text(ring.liveness),
                        ring.rank >= 0 ? std::to_string(ring.rank) : "-",
                        ring.liveness == Liveness::kAlive ? "-" : duration_text(ring.age_ns),
                        fmt::format("{}/{}", ring.run, ring.attempt), printable(ring.path)});
    }
    print_text(listing_text(columns, std::move(rows), arguments.tables));
    return kExitHealthy;
}

int run_collect(const CommonOptions& common, CollectOptions& options) {
    options.ring_directories = ring_directories(common.ring_directory);
    options.run = common.run;
    const CollectResult result = collect_rings(options);
    for (const std::string& path : result.written) {
        print("{}\n", printable(path));
    }
    for (const std::string& problem : result.problems) {
        say("titan-analyze: {}\n", problem);
    }
    if (result.saved_before != 0) {
        say("titan-analyze: {} {} collected earlier, and left alone now\n", counted(result.saved_before, "ring"),
            verb_form(result.saved_before, "was", "were"));
    } else if (result.written.empty() && result.problems.empty()) {
        say("titan-analyze: no ring of a dead process to collect in {}\n", places_text(options.ring_directories));
    }
    return result.problems.empty() ? kExitHealthy : kExitUnusable;
}

struct CollectArguments {
    CommonOptions common;
    CollectOptions options;
};

}  // namespace

Command rings_command(CommandLine& app) {
    const auto arguments = std::make_shared<RingsArguments>();
    CommandLine& command =
        app.command("rings", "List the rings on this node.",
                    "examples:\n  titan-analyze rings\n  titan-analyze rings --ring-dir /scratch/rings\n"
                    "  titan-analyze rings --json | jq -c 'select(.process == \"dead\")'");
    add_table_options(command, arguments->tables,
                      command.flag("--json", arguments->json, "JSON Lines, one object per ring"));
    add_ring_directory_option(command, arguments->common.ring_directory);
    return {&command, [arguments] { return run_rings(*arguments); }};
}

Command collect_command(CommandLine& app) {
    const auto arguments = std::make_shared<CollectArguments>();
    CollectOptions& options = arguments->options;
    options.into = "dumps";
    CommandLine& command =
        app.command("collect", "Save rings of dead processes on this node as dumps.",
                    "examples:\n  titan-analyze collect --into dumps\n"
                    "  srun --overlap --ntasks-per-node=1 titan-analyze collect --into dumps --run job-17");
    command.option("--run", arguments->common.run, "only this run");
    command.option("--into", options.into, "the dump directory").show_default();
    command.flag("--alive", options.include_alive, "rings of living processes too");
    add_ring_directory_option(command, arguments->common.ring_directory);
    return {&command, [arguments] { return run_collect(arguments->common, arguments->options); }};
}

}  // namespace titan::analyzer

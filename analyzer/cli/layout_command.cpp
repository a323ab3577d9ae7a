// titan-analyze layout PATH...: the job's grid.
#include <memory>

#include "commands.h"

namespace titan::analyzer {
namespace {

constexpr const char* kLayoutFooter =
    R"(Says what each communicator is for: by its name ("tp:0", "mesh_dp_shard", "TENSOR_MODEL_PARALLEL_GROUP"), else
inferred from its ranks and from the calls on it, which the output always says. A program can name a communicator with
titan_comm_name, or the place of its rank with titan_label("tp_rank", "1"). An ambiguous communicator gets no name.

examples:
  titan-analyze layout dumps/
  titan-analyze layout dumps/ --config
  titan-analyze layout dumps/ --json | jq '.ranks["5"]')";

struct LayoutArguments {
    CommonOptions common;
    bool config = false;
    bool json = false;
    ListingOptions tables;
};

int run_layout(const LayoutArguments& arguments) {
    const Run run = load_chosen(arguments.common);
    const TextStyle style = terminal_style(arguments.tables);
    if (arguments.config) {
        print_text(arguments.json ? config_json_report(run) : config_report(run, style));
    } else {
        print_text(arguments.json ? layout_json_report(run) : layout_report(run, style));
    }
    return kExitHealthy;
}

}  // namespace

Command layout_command(CommandLine& app) {
    const auto arguments = std::make_shared<LayoutArguments>();
    CommandLine& command =
        app.command("layout", "Show the axes of parallelism and each rank's place in them.", kLayoutFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    add_run(command, arguments->common);
    command.flag("--config", arguments->config,
                 "instead: variables of NCCL, CUDA, PyTorch and the network, and versions, where ranks differ first");
    add_table_options(command, arguments->tables,
                      command.flag("--json", arguments->json, "one JSON object, with all ranks and communicators"));
    return {&command, [arguments] { return run_layout(*arguments); }};
}

}  // namespace titan::analyzer

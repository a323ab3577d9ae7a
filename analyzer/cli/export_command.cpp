// titan-analyze export: the run in a format that other tools read.

#include <algorithm>
#include <memory>

#include "commands.h"
#include "flight_recorder_export.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

constexpr const char* kExportFooter = R"(examples:
  titan-analyze export dumps/ --into fr/
  python -m torch.distributed.flight_recorder.fr_trace fr/ -p nccl_trace_rank_

One file per rank, as PyTorch's Flight Recorder writes them (pickles of plain data, version 2.10). Collectives are
numbered from 1 there and from 0 here. Each pair of ranks that send to each other is a process group of its own, because
fr_trace matches point-to-point calls only in groups of two. What the format has no place for is left out: reduction and
root, streams, steps and spans, creation of communicators.)";

struct ExportArguments {
    CommonOptions common;
    FlightRecorderExport options;
};

int run_export(ExportArguments& arguments) {
    const auto run = load_run(arguments.common.load_options());
    if (!run) {
        return fail(run.error().text());
    }
    const auto is_digest = [](const Process& process) { return process.source.is_digest; };
    if (std::any_of(run->processes.begin(), run->processes.end(), is_digest)) {
        return fail("a digest does not hold all calls in full: export the dumps");
    }
    arguments.options.progress = progress_bar("writing");
    const auto result = export_flight_recorder(*run, arguments.options);
    if (!result) {
        return fail(result.error().text());
    }
    print("{}, {} calls: {}\n", counted(result->files, "file"), grouped_digits(result->calls),
          printable(arguments.options.into));
    for (const auto* lines : {&result->notes, &result->problems}) {
        for (const std::string& line : *lines) {
            say("titan-analyze: {}\n", line);
        }
    }
    return result->problems.empty() && result->files != 0 ? kExitHealthy : kExitUnusable;
}

}  // namespace

Command export_command(CommandLine& app) {
    const auto arguments = std::make_shared<ExportArguments>();
    CommandLine& command = app.command("export", "Write PyTorch Flight Recorder files of the run.", kExportFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    command.option("--into", arguments->options.into, "an empty directory, or one to make").required();
    command.option("--prefix", arguments->options.prefix, "start of the file names; the rank follows").show_default();
    add_run(command, arguments->common);
    return {&command, [arguments] { return run_export(*arguments); }};
}

}  // namespace titan::analyzer

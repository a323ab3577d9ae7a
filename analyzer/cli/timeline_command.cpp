// titan-analyze timeline: the run to look at, in Perfetto.
#include "timeline.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>

#include "commands.h"
#include "host/file_bytes.h"
#include "host/words.h"
#include "trace_manifest.h"

namespace titan::analyzer {
namespace {

constexpr const char* kTimelineFooter =
    R"(All ranks on one clock, which is computed from the collectives. Each rank is a process with its steps, threads
(spans, calls of NCCL and CUDA, events), asyncio tasks, GPU streams (collectives, from their observed start to their
observed end), and values: metrics, readings of the machine, bus bandwidth, how long the others waited for it. Arrows
join the calls of one collective across ranks, and each send with its receive. A call that had not ended extends to the
end of the record; its state says so. Findings have their own track.

examples:
  titan-analyze timeline dumps/                          then open timeline.perfetto-trace at https://ui.perfetto.dev
  titan-analyze timeline dumps/ --around-hang 10 -o hang.perfetto-trace
  titan-analyze timeline dumps/ --rank 0-7 --steps 400-410
  titan-analyze timeline dumps/ --overview --steps 400-410     all steps at low detail, and these in full
  titan-analyze timeline dumps/ --with profiler/*.json   traces of PyTorch's profiler, on the same clock: writes
                                                         timeline.perfetto-trace.manifest.json, and says how to pack
                                                         all of them for Perfetto (v58 and later)

Exit status: 0 written, 2 unusable input or arguments, or the file could not be written.)";

constexpr size_t kWriteBytes = 1 << 20;

struct TimelineArguments {
    CommonOptions common;
    std::vector<std::string> beside;
    std::string into, ranks, steps;
    double around_hang_s = 0;
    uint64_t limit_mb = 200;
    TimelineOptions options;
};

// Writes the manifest for traces of PyTorch's profiler.
std::optional<Error> write_manifest(const Run& run, const Clocks& clocks, const std::string& timeline,
                                    const std::vector<std::string>& beside) {
    std::vector<KinetoTrace> traces;
    std::string names;
    for (const std::string& path : beside) {
        const Result<KinetoTrace> trace = read_kineto(run, path);
        if (!trace) {
            return trace.error().within(printable(path));
        }
        traces.push_back(*trace);
        names += " " + shell_quoted(path);
    }
    const std::string path = timeline + ".manifest.json";
    const std::string text = manifest_of(run, clocks, timeline, traces).dump(2) + "\n";
    if (const auto error = write_private_file(path, std::as_bytes(std::span(text)))) {
        return error->within(printable(path));
    }
    print(
        "{}: {} on the same clock; this packs them for https://ui.perfetto.dev:\n  tar cf {} "
        "--transform='s|.*/||' {} {}{}\n",
        printable(path), counted(traces.size(), "trace"), shell_quoted(timeline + ".tar"), shell_quoted(path),
        shell_quoted(timeline), names);
    return std::nullopt;
}

int run_timeline(TimelineArguments& arguments) {
    TimelineOptions& options = arguments.options;
    if (!parse_ranks(arguments.ranks, options.ranks) || !parse_steps(arguments.steps, options.steps)) {
        return kExitUnusable;
    }
    if (arguments.around_hang_s > 0) {
        options.around_hang_ns = static_cast<int64_t>(arguments.around_hang_s * 1e9);
    }
    options.most_bytes = arguments.limit_mb << 20;
    if (arguments.into.empty()) {
        arguments.into = "timeline.perfetto-trace";
    }
    LoadOptions load = arguments.common.load_options();
    load.with_journals = true;
    const auto run = load_run(load);
    if (!run) {
        return fail(run.error().text());
    }
    Result<PrivateFile> file = PrivateFile::create(arguments.into);
    if (!file) {
        return fail(file.error().within(printable(arguments.into)).text());
    }
    options.progress = progress_bar("drawing", "ranks");
    uint64_t written_bytes = 0;
    std::string pending;
    const auto flush = [&] {
        written_bytes += pending.size();
        file->write(std::as_bytes(std::span(pending)));
        pending.clear();
    };
    const auto timeline = write_timeline(*run, options, [&](std::string_view bytes) {
        pending.append(bytes);
        if (pending.size() >= kWriteBytes) {
            flush();
        }
    });
    flush();
    if (!timeline) {
        return fail(timeline.error().text());
    }
    if (const auto error = file->finish()) {
        return fail(error->within(printable(arguments.into)).text());
    }
    const TimelineCounts& counts = timeline->counts;
    print("{}: {} of {}, {} joined by arrows, {}, {}; {:.1f} MB\n", printable(arguments.into),
          many_counted(counts.slices, "slice"), counted(timeline->processes, "rank"), grouped_digits(counts.joined),
          many_counted(counts.instants, "instant"), many_counted(counts.values, "value"),
          static_cast<double>(written_bytes) * 1e-6);
    for (const std::string& note : timeline->notes) {
        say("titan-analyze: {}\n", note);
    }
    if (!arguments.beside.empty()) {
        if (const auto error = write_manifest(*run, timeline->clocks, arguments.into, arguments.beside)) {
            return fail(error->text());
        }
    }
    return kExitHealthy;
}

}  // namespace

Command timeline_command(CommandLine& app) {
    const auto arguments = std::make_shared<TimelineArguments>();
    CommandLine& command = app.command("timeline", "Draw the run as a timeline for Perfetto.", kTimelineFooter);
    command.option("PATH", arguments->common.paths, "as for the diagnosis").required();
    command.option("-o,--output", arguments->into, "the file to write (default: timeline.perfetto-trace)");
    add_run(command, arguments->common);
    add_ranks(command, arguments->ranks);
    add_steps(command, arguments->steps);
    command.flag(
        "--overview", arguments->options.overview,
        "the whole run at low detail: groups of steps, what a step of each is made of, metrics; with --steps or "
        "--around-hang, these in full");
    command.option("--around-hang", arguments->around_hang_s, "only this many seconds before and after the hang began")
        .between(0.001, 1e6);
    command.option("--limit-mb", arguments->limit_mb, "approximate size of the file: the oldest slices are left out")
        .between(1, 100'000)
        .show_default();
    command.option("--with", arguments->beside, "traces of PyTorch's profiler, put on the same clock");
    return {&command, [arguments] { return run_timeline(*arguments); }};
}

}  // namespace titan::analyzer

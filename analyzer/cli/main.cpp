// The command line: options, progress, exit codes. The only place that prints errors.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "analyzer/finding.h"
#include "analyzer/load.h"
#include "analyzer/report.h"
#include "analyzer/rings.h"
#include "analyzer/show.h"
#include "analyzer/text.h"

namespace titan::analyzer {
namespace {

constexpr int kExitHealthy = 0;
constexpr int kExitFindings = 1;
constexpr int kExitUnusable = 2;

constexpr const char* kFooter = R"(examples:
  titan-analyze dumps/                   the verdict for the newest run in there
  titan-analyze dumps/ --json | jq .verdict
  titan-analyze dumps/ --list-runs       which runs and attempts there are
  titan-analyze dumps/ --run job-17 --attempt 1
  titan-analyze show dumps/ --rank 3 --last 20
  titan-analyze show dumps/ --comm dp:0 --seq 40-42
  titan-analyze rings                    rings on this node, and whether their processes live
  titan-analyze collect --into dumps     save rings of dead processes as dumps

Exit status: 0 nothing wrong, 1 findings, 2 unusable input or arguments.)";

constexpr const char* kShowFooter = R"(examples:
  titan-analyze show dumps/ --rank 3 --last 20
  titan-analyze show dumps/ --comm dp:0 --seq 40-42 --rank 0-3
  titan-analyze show dumps/ --state pending --op all_reduce
  titan-analyze show dumps/ --work --rank 3 --last 20      what was handed to the streams
  titan-analyze show dumps/ --channels --rank 3
  titan-analyze show dumps/ --step 12 --json | jq -c '[.rank,.seq,.op]')";

struct CommonOptions {
    std::vector<std::string> paths;
    std::string run;
    int attempt = -1;
    bool no_rings = false;
    std::string ring_directory;
};

void add_common(CLI::App& app, CommonOptions& common) {
    app.add_option("--run", common.run, "the run to look at (default: the newest)");
    app.add_option("--attempt", common.attempt, "the attempt of the run (default: the newest)")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--ring-dir", common.ring_directory,
                   "where this node's rings are (default: TITANTRACE_RING_DIR or /dev/shm)");
    app.add_flag("--no-rings", common.no_rings, "do not look for rings of missing ranks on this node");
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

// One line that is drawn over, and only when somebody has been kept waiting.
std::function<void(size_t, size_t)> progress_bar() {
    if (!stderr_is_terminal()) {
        return {};
    }
    const auto started = std::chrono::steady_clock::now();
    auto drawn = std::make_shared<std::chrono::steady_clock::time_point>();
    return [started, drawn](size_t done, size_t total) {
        const auto now = std::chrono::steady_clock::now();
        const bool was_drawn = drawn->time_since_epoch().count() != 0;
        if (done == total && was_drawn) {
            fmt::print(stderr, "\r\033[K");
        } else if (now - started > std::chrono::milliseconds(700) && now - *drawn > std::chrono::milliseconds(100) &&
                   done < total) {
            *drawn = now;
            const size_t filled = total == 0 ? 0 : done * 30 / total;
            fmt::print(stderr, "\rreading [{:<30}] {}/{} files", std::string(filled, '#'), done, total);
        }
    };
}

LoadOptions load_options(const CommonOptions& common) {
    LoadOptions options;
    options.paths = common.paths;
    options.run = common.run;
    if (common.attempt >= 0) {
        options.attempt = common.attempt;
    }
    if (!common.no_rings) {
        options.ring_directory = common.ring_directory.empty() ? default_ring_directory() : common.ring_directory;
    }
    options.progress = progress_bar();
    return options;
}

int fail(const std::string& what) {
    fmt::print(stderr, "titan-analyze: {}\n", what);
    return kExitUnusable;
}

TextStyle terminal_style() {
    TextStyle style;
    const char* no_colour = std::getenv("NO_COLOR");
    const bool terminal = ::isatty(STDOUT_FILENO) != 0;
    style.colour = terminal && (no_colour == nullptr || *no_colour == '\0');
    winsize size{};
    if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
        style.width = std::clamp<size_t>(size.ws_col, 60, 120);
    }
    return style;
}

bool write_out(const std::string& text) { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size(); }

int run_diagnose(const CommonOptions& common, const DiagnoseOptions& options, bool json) {
    const auto run = load_run(load_options(common));
    if (!run) {
        return fail(run.error().text());
    }
    const Diagnosis diagnosis = diagnose(*run, options);
    const bool written =
        write_out(json ? json_report(*run, diagnosis) : text_report(*run, diagnosis, terminal_style()));
    if (!written || std::fflush(stdout) != 0) {
        return fail("cannot write the report to standard output");
    }
    return diagnosis.findings.empty() ? kExitHealthy : kExitFindings;
}

int list_runs(const CommonOptions& common) {
    const auto discovery = discover(common.paths);
    if (!discovery) {
        return fail(discovery.error().text());
    }
    for (const CandidateGroup& group : discovery->groups) {
        const auto seconds = static_cast<time_t>(group.newest_ns / 1'000'000'000);
        tm parts{};
        localtime_r(&seconds, &parts);
        const std::string name = group.attempt.empty()
                                     ? "(no run directory) " + printable(group.files.front().directory)
                                     : fmt::format("{} attempt {}", printable(group.run), group.attempt);
        fmt::print("{:04}-{:02}-{:02} {:02}:{:02}:{:02}  {:<40} {} file{}\n", parts.tm_year + 1900, parts.tm_mon + 1,
                   parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, name, group.files.size(),
                   group.files.size() == 1 ? "" : "s");
    }
    for (const Warning& warning : discovery->warnings) {
        fmt::print(stderr, "titan-analyze: {}\n", warning.summary);
    }
    return discovery->groups.empty() ? fail("no dumps (*.titan) and no rings (*.ring) found") : kExitHealthy;
}

// "3", "0-7,64": ranks and ranges.
std::optional<std::set<int>> parse_ranks(const std::string& text) {
    std::set<int> ranks;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        int first = 0;
        int last = 0;
        char rest = 0;
        const int fields = std::sscanf(part.c_str(), "%d-%d%c", &first, &last, &rest);
        const bool single =
            part.find('-') == std::string::npos && std::sscanf(part.c_str(), "%d%c", &first, &rest) == 1;
        if (!single && fields != 2) {
            return std::nullopt;
        }
        last = single ? first : last;
        if (first < 0 || last < first || last - first > 1'000'000) {
            return std::nullopt;
        }
        for (int rank = first; rank <= last; ++rank) {
            ranks.insert(rank);
        }
    }
    return ranks;
}

template <typename T>
std::optional<std::pair<T, T>> parse_range(const std::string& text) {
    unsigned long long first = 0;
    unsigned long long last = 0;
    char rest = 0;
    if (std::sscanf(text.c_str(), "%llu-%llu%c", &first, &last, &rest) == 2) {
        return std::pair<T, T>(static_cast<T>(first), static_cast<T>(last));
    }
    if (std::sscanf(text.c_str(), "%llu%c", &first, &rest) == 1) {
        return std::pair<T, T>(static_cast<T>(first), static_cast<T>(first));
    }
    return std::nullopt;
}

struct ShowArguments {
    std::string ranks, sequences, steps;
    ShowOptions options;
};

int run_show(const CommonOptions& common, ShowArguments& arguments) {
    if (!arguments.ranks.empty()) {
        const auto ranks = parse_ranks(arguments.ranks);
        if (!ranks) {
            return fail("--rank takes ranks and ranges such as 3 or 0-7,64, not '" + printable(arguments.ranks) + "'");
        }
        arguments.options.ranks = *ranks;
    }
    if (!arguments.sequences.empty() && !(arguments.options.sequences = parse_range<uint64_t>(arguments.sequences))) {
        return fail("--seq takes a number or a range such as 40-42, not '" + printable(arguments.sequences) + "'");
    }
    if (!arguments.steps.empty() && !(arguments.options.steps = parse_range<int64_t>(arguments.steps))) {
        return fail("--step takes a number or a range such as 10-12, not '" + printable(arguments.steps) + "'");
    }
    const auto run = load_run(load_options(common));
    if (!run) {
        return fail(run.error().text());
    }
    show(*run, arguments.options, [](const std::string& line) { write_out(line); });
    for (const Warning& warning : run->warnings) {
        if (warning.kind == "damaged_file") {
            fmt::print(stderr, "titan-analyze: {}\n", warning.summary);
        }
    }
    return kExitHealthy;
}

int run_rings(const CommonOptions& common) {
    const std::string directory = common.ring_directory.empty() ? default_ring_directory() : common.ring_directory;
    const std::vector<NodeRing> rings = list_rings(directory);
    if (rings.empty()) {
        fmt::print("no rings of this user in {}\n", printable(directory));
        return kExitHealthy;
    }
    fmt::print("{:>8}  {:<8} {:>6}  {:>12}  {:<28} {}\n", "pid", "process", "rank", "silent for", "run/attempt",
               "ring");
    for (const NodeRing& ring : rings) {
        if (!ring.problem.empty()) {
            fmt::print("{:>8}  {:<8} {:>6}  {:>12}  {:<28} {}\n", "-", "-", "-", "-", "cannot be read", ring.problem);
            continue;
        }
        fmt::print("{:>8}  {:<8} {:>6}  {:>12}  {:<28} {}\n", ring.pid, liveness_text(ring.liveness),
                   ring.rank >= 0 ? std::to_string(ring.rank) : "-",
                   ring.liveness == Liveness::kAlive ? "-" : duration_text(ring.age_ns),
                   fmt::format("{}/{}", ring.run, ring.attempt), printable(ring.path));
    }
    return kExitHealthy;
}

int run_collect(const CommonOptions& common, CollectOptions& options) {
    options.ring_directory = common.ring_directory.empty() ? default_ring_directory() : common.ring_directory;
    options.run = common.run;
    const CollectResult result = collect_rings(options);
    for (const std::string& path : result.written) {
        fmt::print("{}\n", printable(path));
    }
    for (const std::string& problem : result.problems) {
        fmt::print(stderr, "titan-analyze: {}\n", problem);
    }
    if (result.written.empty()) {
        fmt::print(stderr, "titan-analyze: no ring of a dead process to collect in {}\n",
                   printable(options.ring_directory));
    }
    return result.problems.empty() ? kExitHealthy : kExitUnusable;
}

int run_command_line(int argc, char** argv) {
    CLI::App app{"Says which rank a distributed GPU job waits for, and why, from the dumps and rings of titantrace."};
    app.name("titan-analyze");
    app.footer(kFooter);
    app.set_version_flag("--version", std::string("titan-analyze ") + TITAN_VERSION + " (reads ring format " +
                                          std::to_string(format::kRingMajor) + ".x)");
    CommonOptions common;
    DiagnoseOptions diagnose_options;
    bool json = false;
    bool only_list = false;
    app.add_option("PATH", common.paths, "dump directories, dump files, ring files or ring directories");
    add_common(app, common);
    app.add_flag("--json", json, "the diagnosis as one JSON object");
    app.add_flag("--list-runs", only_list, "list the runs found instead of a diagnosis");
    app.add_option("--hang-after-s", diagnose_options.hang_after_s,
                   "call a wait a hang after this long (default: from the run's own habits, at least 1 s)")
        ->check(CLI::NonNegativeNumber);

    ShowArguments show_arguments;
    CLI::App* show_command = app.add_subcommand("show", "List recorded calls.")->footer(kShowFooter);
    show_command->add_option("PATH", common.paths, "as for the diagnosis")->required();
    add_common(*show_command, common);
    show_command->add_option("--rank", show_arguments.ranks, "ranks, such as 3 or 0-7,64");
    show_command->add_option("--comm", show_arguments.options.communicator,
                             "communicator: its name, or the start of its id");
    show_command->add_option("--seq", show_arguments.sequences, "sequence number or range, such as 40-42");
    show_command->add_option("--step", show_arguments.steps, "step or range");
    show_command->add_option(
        "--state", show_arguments.options.state,
        "entered, grouped, launching, enqueued, pending, started, finished, failed, returned, captured");
    show_command->add_option("--op", show_arguments.options.op, "operation, such as all_reduce");
    show_command->add_option("--last", show_arguments.options.last, "only the newest N of each rank");
    CLI::Option* work = show_command->add_flag("--work", show_arguments.options.work,
                                               "kernels, copies and events on the streams, instead of calls");
    show_command
        ->add_flag("--channels", show_arguments.options.channels, "what NCCL's channels do (profiler plugin), instead")
        ->excludes(work);
    show_command->add_flag("--json", show_arguments.options.json, "JSON Lines, one object per call");

    CLI::App* rings_command = app.add_subcommand("rings", "List the rings that lie on this node.");
    rings_command->add_option("--ring-dir", common.ring_directory, "default: TITANTRACE_RING_DIR or /dev/shm");
    CollectOptions collect_options;
    collect_options.into = "dumps";
    CLI::App* collect_command = app.add_subcommand("collect", "Save rings of dead processes on this node as dumps.");
    collect_command->add_option("--run", common.run, "only this run");
    collect_command->add_option("--into", collect_options.into, "the dump directory")->capture_default_str();
    collect_command->add_flag("--alive", collect_options.include_alive, "rings of living processes too");
    collect_command->add_option("--ring-dir", common.ring_directory, "default: TITANTRACE_RING_DIR or /dev/shm");
    app.require_subcommand(0, 1);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitHealthy : kExitUnusable;
    }
    if (show_command->parsed()) {
        return run_show(common, show_arguments);
    }
    if (rings_command->parsed()) {
        return run_rings(common);
    }
    if (collect_command->parsed()) {
        return run_collect(common, collect_options);
    }
    if (common.paths.empty()) {
        return fail("no PATH given; try: titan-analyze dumps/   (--help shows more)");
    }
    return only_list ? list_runs(common) : run_diagnose(common, diagnose_options, json);
}

}  // namespace
}  // namespace titan::analyzer

int main(int argc, char** argv) {
    try {
        return titan::analyzer::run_command_line(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fputs("titan-analyze: out of memory\n", stderr);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "titan-analyze: %s\n", error.what());
    }
    return 2;
}

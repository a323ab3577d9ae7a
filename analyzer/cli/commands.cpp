#include "commands.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "document.h"
#include "host/json_value.h"
#include "host/words.h"
#include "rings.h"

namespace titan::analyzer {
namespace {

bool errors_as_json = false;

constexpr int kLeastColumns = 20;
constexpr size_t kMostColumns = 120;  // longer lines of words are hard to read
constexpr size_t kMostColumnsOfFiles = 200;
constexpr size_t kLeastRows = 24;

// Width of the terminal on standard output, or COLUMNS; 0 if unknown.
size_t output_columns() {
    winsize size{};
    if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
        return std::max<size_t>(size.ws_col, kLeastColumns);
    }
    const char* const columns = std::getenv("COLUMNS");
    const int wanted = columns == nullptr ? 0 : std::atoi(columns);
    return wanted > 0 ? static_cast<size_t>(std::max(wanted, kLeastColumns)) : 0;
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

// As an option also where the environment says it: the shell that the command is pasted into may say otherwise.
std::string ring_option(const CommonOptions& common) {
    const std::string directory =
        common.no_rings ? common.ring_directory : chosen_ring_directory(common.ring_directory);
    std::error_code ignored;
    const bool is_there = std::filesystem::is_directory(directory, ignored);
    return is_there ? " --ring-dir " + shell_quoted(printable(directory)) : std::string();
}

}  // namespace

std::function<void(size_t, size_t)> progress_bar(std::string what, std::string unit) {
    if (!stderr_is_terminal()) {
        return {};
    }
    const auto started = std::chrono::steady_clock::now();
    auto drawn = std::make_shared<std::chrono::steady_clock::time_point>();
    return [started, drawn, what = std::move(what), unit = std::move(unit)](size_t done, size_t total) {
        const auto now = std::chrono::steady_clock::now();
        const bool was_drawn = drawn->time_since_epoch().count() != 0;
        if (done == total && was_drawn) {
            say("\r\033[K");
        } else if (now - started > std::chrono::milliseconds(700) && now - *drawn > std::chrono::milliseconds(100) &&
                   done < total) {
            *drawn = now;
            const size_t filled = total == 0 ? 0 : done * 30 / total;
            say("\r{} [{:<30}] {}/{} {}", what, std::string(filled, '#'), done, total, unit);
        }
    };
}

void add_path(CommandLine& app, CommonOptions& common) {
    app.option("PATH", common.paths,
               "dump directories, dump files, ring files or ring directories; Flight Recorder files of PyTorch; "
               "logs and error files of launchers and schedulers");
}

void add_run(CommandLine& app, CommonOptions& common) {
    app.option("--run", common.run, "the run to look at (default: the newest)");
    app.option("--attempt", common.attempt, "the attempt of the run (default: the newest)").not_negative();
    app.option("--start", common.start,
               "if the job was started more than once in the directory of that attempt: which start, from 1 on "
               "(default: the newest)")
        .not_negative();
    app.option("--role", common.role,
               "the role of the processes (the program's label \"role\"), if two roles number their ranks "
               "alike");
    add_ring_directory_option(app, common.ring_directory);
    app.flag("--no-rings", common.no_rings, "do not look for rings of missing ranks on this node");
}

void add_table_options(CommandLine& app, ListingOptions& tables, CommandOption json) {
    tables.width = output_columns();
    app.option("--sort", tables.sort, "sort the table by this column; --sort=-COLUMN: the largest first")
        .excludes(json);
    app.flag("--csv", tables.csv, "the table as CSV, without the words around it").excludes(json);
}

void add_steps(CommandLine& app, std::string& steps) {
    app.option("--steps,--step", steps, "step or range of steps, such as 40-50");
}

void add_hang_after(CommandLine& app, double& hang_after_s) {
    app.option("--hang-after-s", hang_after_s,
               "call a wait a hang after this long (default: from how long this run usually waits, at least 1 s)")
        .not_negative();
}

LoadOptions CommonOptions::load_options(bool with_journals) const {
    LoadOptions options;
    options.paths = paths;
    options.run = run;
    options.role = role;
    if (attempt >= 0) {
        options.attempt = attempt;
    }
    options.start = start;
    options.with_journals = with_journals;
    if (!no_rings) {
        options.ring_directories = ring_directories(ring_directory);
    }
    options.progress = progress_bar("reading", "files");
    return options;
}

void report_errors_as_json(bool wanted) { errors_as_json = wanted; }

int fail(const std::string& what) {
    say("titan-analyze: {}\n", what);
    if (errors_as_json) {
        const Json json{{"schema", kJsonSchema}, {"error", what}};
        print_text(json.dump() + "\n");
    }
    return kExitUnusable;
}

TextStyle terminal_style(const ListingOptions& tables) {
    TextStyle style;
    style.tables = tables;
    const char* no_colour = std::getenv("NO_COLOR");
    const bool terminal = ::isatty(STDOUT_FILENO) != 0;
    const char* kind = std::getenv("TERM");
    const bool is_dumb = kind != nullptr && std::string_view(kind) == "dumb";
    style.colour = terminal && !is_dumb && (no_colour == nullptr || *no_colour == '\0');
    style.tables.width = output_columns();
    if (style.tables.width != 0) {
        style.width = std::min<size_t>(style.tables.width, terminal ? kMostColumns : kMostColumnsOfFiles);
    }
    winsize size{};
    if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
        style.rows = std::max<size_t>(size.ws_row, kLeastRows);
    }
    return style;
}

TextStyle command_line_style(const CommonOptions& common) {
    TextStyle style = terminal_style();
    style.input.clear();
    for (const std::string& path : common.paths) {
        style.input += (style.input.empty() ? "" : " ") + shell_quoted(printable(path));
    }
    style.input += common.run.empty() ? "" : " --run " + shell_quoted(printable(common.run));
    style.input += common.no_rings ? " --no-rings" : "";
    style.input += ring_option(common);
    style.input += common.attempt < 0 ? "" : fmt::format(" --attempt {}", common.attempt);
    style.input += common.start == 0 ? "" : fmt::format(" --start {}", common.start);
    style.input += common.role.empty() ? "" : " --role " + shell_quoted(printable(common.role));
    return style;
}

void add_ranks(CommandLine& app, std::string& ranks) { app.option("--rank", ranks, "ranks, such as 3 or 0-7,64"); }

void say_which_is_read(const Run& run, const CommonOptions& common, const char* side) {
    for (const Warning& warning : run.warnings) {
        const bool is_open = (warning.kind == WarningKind::kOtherRole && common.role.empty()) ||
                             (warning.kind == WarningKind::kOtherRun && common.start == 0);
        if (is_open) {
            say("titan-analyze: {}{}\n", side, warning.summary);
        }
    }
}

Run load_chosen(const CommonOptions& common, bool with_journals) {
    Run run = usable(load_run(common.load_options(with_journals)));
    say_which_is_read(run, common);
    return run;
}

int report_run_with_journals(const CommonOptions& common, const char* nothing,
                             const std::function<bool(const Run&, const Write& print, const Write& note)>& report) {
    const Run run = load_chosen(common, true);
    const Write note = [](const std::string& problem) { say("titan-analyze: {}\n", problem); };
    if (report(
            run, [](const std::string& text) { print_text(text); }, note)) {
        return kExitHealthy;
    }
    const bool foreign = !run.processes.empty() && std::ranges::all_of(run.processes, [](const Process& one) {
        return one.source.is_flight_recorder;
    });
    say("titan-analyze: {}{}\n", nothing, foreign ? ": Flight Recorder files hold only calls" : "");
    return kExitFindings;
}

}  // namespace titan::analyzer

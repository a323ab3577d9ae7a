// Parts that all commands of titan-analyze share: exit statuses, the options that choose a run, errors, progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host/command_line.h"
#include "host/listing.h"
#include "host/output.h"
#include "host/result.h"
#include "load_run.h"
#include "report.h"
#include "summary.h"

namespace titan::analyzer {

inline constexpr int kExitHealthy = 0;
inline constexpr int kExitFindings = 1;
inline constexpr int kExitUnusable = 2;
inline constexpr int kExitInconclusive = 3;

// Options that choose the records.
struct CommonOptions {
    std::vector<std::string> paths;
    std::string run;
    int attempt = -1;
    int start = 0;
    std::string role;
    bool no_rings = false;
    std::string ring_directory;

    LoadOptions load_options(bool with_journals = false) const;
};

void add_path(CommandLine& app, CommonOptions& common);
void add_run(CommandLine& app, CommonOptions& common);
// --sort and --csv, for every command that prints a table; `json` leaves no table.
void add_table_options(CommandLine& app, ListingOptions& tables, CommandOption json);
void add_hang_after(CommandLine& app, double& hang_after_s);
void add_ranks(CommandLine& app, std::string& ranks);
// Ends a command with exit status kExitUnusable; the message says what cannot be used.
struct Unusable : std::runtime_error {
    using std::runtime_error::runtime_error;
};
template <typename T>
T usable(Result<T> result) {
    return result ? std::move(*result) : throw Unusable(result.error().text());
}

// These throw Unusable. "3", "0-7,64", "1,3,...,511": ranks and ranges; empty is the empty set.
std::set<int> parse_ranks(const std::string& text, const char* option = "--rank");
// "40", "40-42"; empty is no range. `example`: of what `option` takes.
std::optional<std::pair<uint64_t, uint64_t>> parse_range(const char* option, const char* example,
                                                         const std::string& text);
// --by; empty: `otherwise`.
void add_by(CommandLine& app, std::string& by, const char* otherwise);
SummaryBy parse_by(const std::string& text, SummaryBy otherwise);
// --steps, which was --step before.
void add_steps(CommandLine& app, std::string& steps);
std::optional<std::pair<int64_t, int64_t>> parse_steps(const std::string& text);

// The run that the options choose. Throws Unusable. If it is one of several starts or roles, and they name none, says
// on standard error which is read.
Run load_chosen(const CommonOptions& common, bool with_journals = false);
// Says that of a run that is loaded already, as one of two: "A: ".
void say_which_is_read(const Run& run, const CommonOptions& common, const char* side = "");

// Loads a run with its journals and prints what `report` makes of it, notes on standard error; where that is nothing,
// says `nothing`. Returns the exit status.
int report_run_with_journals(const CommonOptions& common, const char* nothing,
                             const std::function<bool(const Run&, const Write& print, const Write& note)>& report);

// A subcommand and what it does; returns the exit status.
struct Command {
    const CommandLine* line;
    std::function<int()> run;
};

// The subcommands of titan-analyze (subcommands.cpp), or none (no_subcommands.cpp).
std::vector<Command> subcommands(CommandLine& app);

// Each adds itself to the command line.
Command diagnose_command(CommandLine& app);  // the default one: options of the program itself
Command help_command(CommandLine& app);
Command why_command(CommandLine& app);
Command whatif_command(CommandLine& app);
Command show_command(CommandLine& app);
Command metrics_command(CommandLine& app);
Command sql_command(CommandLine& app);
Command stragglers_command(CommandLine& app);
Command summary_command(CommandLine& app);
Command compare_command(CommandLine& app);
Command report_command(CommandLine& app);
Command watch_command(CommandLine& app);
Command timeline_command(CommandLine& app);
Command fields_command(CommandLine& app);
Command layout_command(CommandLine& app);
Command digest_command(CommandLine& app);
Command stacks_command(CommandLine& app);
Command rings_command(CommandLine& app);
Command collect_command(CommandLine& app);
Command clean_command(CommandLine& app);

// A guess at the intended command line, as a sentence to follow the error; empty if there is no idea.
std::string suggestion(const CommandLine& app, const std::vector<std::string>& arguments);

// One line that is drawn over, and only when somebody has been kept waiting. Empty where standard error is no terminal.
std::function<void(size_t done, size_t total)> progress_bar(std::string what, std::string unit);

// Reports an error in the form that the user asked for.
int fail(const std::string& what);
// With JSON, errors also go to standard output, as an object.
void report_errors_as_json(bool wanted);
// Width and colour of the terminal on standard output; plain elsewhere.
TextStyle terminal_style(const ListingOptions& tables = {});
// And names the records as on this command line, so that commands in a report can be pasted.
TextStyle command_line_style(const CommonOptions& common);

}  // namespace titan::analyzer

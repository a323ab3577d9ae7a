// titan-analyze PATH...: the verdict.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "diagnose.h"
#include "discover.h"
#include "document.h"
#include "finding.h"
#include "host/json_value.h"
#include "host/mapped.h"
#include "host/words.h"
#include "report.h"
#include "rings.h"
#include "starts.h"

namespace titan::analyzer {
namespace {

// --- The jobs whose rings lie on this node, for somebody who named no records, or none that are there.

struct JobOfNode {
    size_t alive = 0;
    size_t ended = 0;
    int64_t newest_ns = 0;
    std::string directory;
};

// Says on stderr which jobs live here or left rings, and what to type for each; nothing where there is none.
// One line, on the newest: who asked for a directory did not ask for the jobs of the node.
void say_jobs_of_node(const RingDirectories& directories) {
    std::map<std::string, JobOfNode> jobs;
    for (const NodeRing& ring : list_rings(directories)) {
        if (ring.problem.empty() && ring.rank >= 0) {
            JobOfNode& job = jobs[ring.run];
            ++(ring.liveness == Liveness::kAlive ? job.alive : job.ended);
            job.newest_ns = std::max(job.newest_ns, ring.newest_ns);
            job.directory = std::filesystem::path(ring.path).parent_path();
        }
    }
    const auto newest = std::ranges::max_element(
        jobs, [](const auto& a, const auto& b) { return a.second.newest_ns < b.second.newest_ns; });
    if (newest == jobs.end()) {
        return;
    }
    const auto& [run, job] = *newest;
    const std::string name = shell_quoted(printable(run));
    const std::string others =
        jobs.size() == 1 ? "" : fmt::format("; {}: titan-analyze rings", counted(jobs.size() - 1, "more job"));
    if (job.alive != 0) {
        say("titan-analyze: run {} lives on this node ({}); for dumps of now: titan-dump --job {}{}\n", printable(run),
            counted(job.alive, "rank"), name, others);
    } else {
        say("titan-analyze: run {} ended on this node at {} and left {}: titan-analyze {} --run {}{}\n", printable(run),
            date_text(job.newest_ns), counted(job.ended, "ring"), shell_quoted(printable(job.directory)), name, others);
    }
}

struct DiagnoseArguments {
    CommonOptions common;
    DiagnoseOptions options;
    bool json = false;
    bool one_line = false;
    bool all = false;
    bool only_list = false;
    double slow_percent = 5;
};

int run_diagnose(const DiagnoseArguments& arguments) {
    const CommonOptions& common = arguments.common;
    LoadOptions load = common.load_options();
    load.witnesses_alone = true;
    auto run = load_run(load);
    if (!run) {
        const int status = fail(run.error().text());
        say_jobs_of_node(load.ring_directories);
        return status;
    }
    DiagnoseOptions options = arguments.options;
    options.slow_share = arguments.slow_percent / 100;
    const Diagnosis diagnosis = diagnose_worlds(*run, options);
    TextStyle style = command_line_style(common);
    style.rows = arguments.all ? 0 : style.rows;
    print_text(arguments.json       ? json_report(*run, diagnosis)
               : arguments.one_line ? one_line(*run, diagnosis) + "\n"
                                    : text_report(*run, diagnosis, style));
    switch (outcome_of(diagnosis)) {
        case Outcome::kVerdict: return kExitFindings;
        case Outcome::kCannotTell: return kExitInconclusive;
        case Outcome::kWaiting:
        case Outcome::kNothingWrong: break;
    }
    return kExitHealthy;
}

std::string directory_of(const CandidateGroup& group) {
    return group.files.empty() ? std::filesystem::path(group.journals.front()).parent_path().string()
                               : group.files.front().directory;
}

std::string runs_text(const std::vector<CandidateGroup>& groups) {
    Rows rows;
    for (const CandidateGroup& group : groups) {
        const std::string name = group.attempt.empty()
                                     ? "(no run directory) " + printable(directory_of(group))
                                     : fmt::format("{} attempt {}", printable(group.run), group.attempt);
        const std::vector<Start> starts = starts_of(group);
        for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
            rows.push_back({date_text(start->newest_ns),
                            fmt::format("{} start {} of {}", name, start->number, start->count),
                            counted(start->paths.size(), "file")});
        }
        if (starts.empty()) {
            rows.push_back(
                {date_text(group.newest_ns), name, counted(group.files.size() + group.journals.size(), "file")});
        }
    }
    return listing_text({{"", 26}, {"", 40}, {"", 0}}, std::move(rows));
}

std::string runs_json(const Discovery& discovery) {
    Json runs = Json::array();
    for (const CandidateGroup& group : discovery.groups) {
        Json run{{"run", nullptr},
                 {"attempt", nullptr},
                 {"directory", directory_of(group)},
                 {"newest_ns", group.newest_ns},
                 {"files", group.files.size() + group.journals.size()}};
        if (!group.attempt.empty()) {
            run["run"] = group.run;
            run["attempt"] = std::atoi(group.attempt.c_str());
        }
        run["starts"] = mapped(starts_of(group), [](const Start& start) -> Json {
            return {{"start", start.number},
                    {"began_ns", start.began_ns},
                    {"newest_ns", start.newest_ns},
                    {"processes", start.processes.size()},
                    {"files", start.paths.size()}};
        });
        runs.push_back(std::move(run));
    }
    const Json json{{"schema", kJsonSchema}, {"runs", runs}};
    return json.dump(2) + "\n";
}

int list_runs(const CommonOptions& common, bool json) {
    const auto discovery = discover(common.paths);
    if (!discovery) {
        return fail(discovery.error().text());
    }
    for (const Warning& warning : discovery->warnings) {
        say("titan-analyze: {}\n", warning.summary);
    }
    if (discovery->groups.empty()) {
        return fail("no dumps (*.titan), rings (*.ring) or journals (*.journal) found");
    }
    print_text(json ? runs_json(*discovery) : runs_text(discovery->groups));
    return kExitHealthy;
}

}  // namespace

Command diagnose_command(CommandLine& app) {
    const auto arguments = std::make_shared<DiagnoseArguments>();
    add_path(app, arguments->common);
    add_run(app, arguments->common);
    const CommandOption json = app.flag("--json", arguments->json, "the diagnosis as one JSON object");
    app.flag("--oneline", arguments->one_line, "the diagnosis in one line, for a chat or a log").excludes(json);
    app.flag("--all", arguments->all,
             "the whole report, even on a terminal, which otherwise shows only as much as fits");
    app.flag("--list-runs", arguments->only_list, "list the runs found instead of a diagnosis");
    add_hang_after(app, arguments->options.hang_after_s);
    app.option("--slow-percent", arguments->slow_percent,
               "report a cause as a finding if it costs more than this percentage of a step (default: 5)")
        .not_negative();
    return {&app, [arguments] {
                if (arguments->common.paths.empty()) {
                    const int status = fail("no PATH given; try: titan-analyze dumps/   (--help shows more)");
                    say_jobs_of_node(arguments->common.load_options().ring_directories);
                    return status;
                }
                return arguments->only_list ? list_runs(arguments->common, arguments->json) : run_diagnose(*arguments);
            }};
}

}  // namespace titan::analyzer

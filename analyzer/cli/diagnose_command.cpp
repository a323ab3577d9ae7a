// titan-analyze PATH...: the verdict.
#include "finding.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "commands.h"
#include "diagnose.h"
#include "discover.h"
#include "host/json_value.h"
#include "host/words.h"
#include "jobs_of_node.h"
#include "json_schema.h"

namespace titan::analyzer {
namespace {

int run_diagnose(const CommonOptions& common, const DiagnoseOptions& options, bool json) {
    LoadOptions load = common.load_options();
    load.witnesses_alone = true;
    const auto run = load_run(load);
    if (!run) {
        const int status = fail(run.error().text());
        say_jobs_of_node(load.ring_directories);
        return status;
    }
    const Diagnosis diagnosis = diagnose(*run, options);
    print_text(json ? json_report(*run, diagnosis) : text_report(*run, diagnosis, command_line_style(common)));
    return !diagnosis.findings.empty()      ? kExitFindings
           : !diagnosis.cannot_tell.empty() ? kExitInconclusive
                                            : kExitHealthy;
}

std::string runs_text(const std::vector<CandidateGroup>& groups) {
    std::string text;
    for (const CandidateGroup& group : groups) {
        const std::string name = group.attempt.empty()
                                     ? "(no run directory) " + printable(group.files.front().directory)
                                     : fmt::format("{} attempt {}", printable(group.run), group.attempt);
        text += fmt::format("{}  {:<40} {}\n", date_text(group.newest_ns), name, counted(group.files.size(), "file"));
    }
    return text;
}

std::string runs_json(const Discovery& discovery) {
    Json runs = Json::array();
    for (const CandidateGroup& group : discovery.groups) {
        Json run{{"run", nullptr},
                 {"attempt", nullptr},
                 {"directory", group.files.front().directory},
                 {"newest_ns", group.newest_ns},
                 {"files", group.files.size()}};
        if (!group.attempt.empty()) {
            run["run"] = group.run;
            run["attempt"] = std::atoi(group.attempt.c_str());
        }
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
        return fail("no dumps (*.titan) and no rings (*.ring) found");
    }
    print_text(json ? runs_json(*discovery) : runs_text(discovery->groups));
    return kExitHealthy;
}

struct DiagnoseArguments {
    CommonOptions common;
    DiagnoseOptions options;
    bool json = false;
    bool only_list = false;
};

}  // namespace

Command diagnose_command(CommandLine& app) {
    const auto arguments = std::make_shared<DiagnoseArguments>();
    add_path(app, arguments->common);
    add_run(app, arguments->common);
    app.flag("--json", arguments->json, "the diagnosis as one JSON object");
    app.flag("--list-runs", arguments->only_list, "list the runs found instead of a diagnosis");
    app.option("--hang-after-s", arguments->options.hang_after_s,
               "call a wait a hang after this long (default: from how long this run usually waits, at least 1 s)")
        .not_negative();
    return {&app, [arguments] {
                if (arguments->common.paths.empty()) {
                    const int status = fail("no PATH given; try: titan-analyze dumps/   (--help shows more)");
                    say_jobs_of_node(arguments->common.load_options().ring_directories);
                    return status;
                }
                return arguments->only_list ? list_runs(arguments->common, arguments->json)
                                            : run_diagnose(arguments->common, arguments->options, arguments->json);
            }};
}

}  // namespace titan::analyzer

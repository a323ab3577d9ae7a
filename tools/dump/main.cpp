// titan-dump: asks traced processes for a dump, without a signal.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "dump/dump_processes.h"
#include "host/command_line.h"
#include "host/output.h"
#include "host/program.h"
#include "host/words.h"

namespace titan::tools {
namespace {

constexpr int kExitAnswered = 0;
constexpr int kExitOutside = 1;
constexpr int kExitUnusable = 2;
constexpr int kExitOthersMissing = 3;

constexpr const char* kFooter = R"(examples:
  titan-dump --list                      what is traced on this node, and whether it lives
  titan-dump 4711                        only that process dumps
  titan-dump --job job-17                all its ranks dump, on all nodes
  titan-dump --job job-17; titan-analyze dumps/      the analysis of what there is, even if some have no dump
  titan-dump $(pgrep -f train.py) --json | jq -r '.dumps[].path'

titan-dump writes a request into the process' ring file, where the tracer's own thread finds it. It does not touch the
program's threads, signals and files, and works wherever the program is stuck. Paths of the dumps go to standard output,
everything else to standard error.

If a process cannot answer (stopped, a zombie, dead, stuck in the kernel, nothing heard within the timeout), titan-dump
reads its ring from outside and writes the dump itself, to the same directory, with what /proc shows of its threads and,
if the system permits (same user and kernel.yama.ptrace_scope=0, or root), their Python stacks. It never stops or
attaches to a process. A process that does not answer in time may still answer later, and then leaves one more dump.

Other nodes of a job read the request from the dump directory, which all nodes must share, and write their dumps there
within seconds; --job waits for them, for at most --nodes-timeout. A rank that answers asks them, so if no rank does,
run titan-dump on the other nodes, too.

Exit status: 0 every rank wrote its dump, 1 some dumps were written from outside, 2 some processes of this node have
none, or the arguments are wrong, 3 this node has its dumps, and ranks of other nodes did not answer (standard error
names them).)";

int fail(const std::string& what) {
    say("titan-dump: {}\n", what);
    return kExitUnusable;
}

void say_all(const std::vector<std::string>& problems) {
    for (const std::string& problem : problems) {
        say("titan-dump: {}\n", problem);
    }
}

int list(const DumpOptions& options) {
    NodeProcesses found = find_processes(options.ring_directory);
    leave_out_earlier(found.processes);
    const auto lives = [](const NodeProcess& process) { return is_alive(process.presence); };
    const auto dead = std::stable_partition(found.processes.begin(), found.processes.end(), lives);
    if (options.json) {
        print_text(list_json(found));
        return kExitAnswered;
    }
    say_all(found.problems);
    if (const auto left_out = found.processes.end() - dead; left_out != 0 && !options.all) {
        found.processes.erase(dead, found.processes.end());
        say("titan-dump: {} that ended {} not shown (--all)\n", counted(static_cast<uint64_t>(left_out), "process"),
            verb_form(static_cast<uint64_t>(left_out), "is", "are"));
    }
    if (found.processes.empty()) {
        say("titan-dump: no{} traced process{} on this node\n", options.all ? "" : " living",
            ::geteuid() == 0 ? "" : " of this user");
        return kExitAnswered;
    }
    print_text(list_text(found));
    return kExitAnswered;
}

std::string runs_here(const NodeProcesses& found) {
    std::set<std::string> runs;
    for (const NodeProcess& process : found.processes) {
        runs.insert(process.run());
    }
    return runs.empty() ? "no traced process is on this node" : fmt::format("on this node: {}", fmt::join(runs, ", "));
}

// The newest attempt's ranks, each once.
std::vector<NodeProcess> ranks_of_job(const NodeProcesses& found, const DumpOptions& options) {
    int attempt = options.attempt;
    for (const NodeProcess& process : found.processes) {
        if (options.attempt < 0 && process.run() == options.run && process.presence != Presence::kUnknown) {
            attempt = std::max(attempt, process.header.attempt);
        }
    }
    std::vector<NodeProcess> ranks;
    for (const NodeProcess& process : found.processes) {
        if (process.run() == options.run && process.header.attempt == attempt &&
            process.presence != Presence::kUnknown) {
            ranks.push_back(process);
        }
    }
    leave_out_earlier(ranks);
    return ranks;
}

int report(const DumpResult& result, bool all_found, bool json) {
    int status = all_found ? kExitAnswered : kExitUnusable;
    for (const DumpOutcome& outcome : result.outcomes) {
        const int own = outcome.how == How::kAnswered ? kExitAnswered
                        : outcome.how == How::kFailed ? kExitUnusable
                                                      : kExitOutside;
        status = std::max(status, own);
        if (const std::string text = outcome_text(outcome); !text.empty()) {
            say("titan-dump: {}\n", text);
        }
        if (outcome.how == How::kAnswered && outcome.path.empty()) {
            say("titan-dump: {} wrote its dump to a path that is too long to print\n", outcome.process.text());
        }
        if (!json && !outcome.path.empty()) {
            print("{}\n", printable(outcome.path));
        }
    }
    for (const auto& [rank, path] : result.other_answers) {
        if (!json) {
            print("{}\n", printable(path));
        }
    }
    if (json) {
        print_text(result_json(result));
    }
    return status < kExitUnusable && !result.unanswered.empty() ? kExitOthersMissing : status;
}

int run(const DumpOptions& options) {
    if (options.list) {
        return list(options);
    }
    if (options.pids.empty() == options.run.empty()) {
        return fail("name processes by PID, or a job by --job RUN; --list shows what there is, --help explains");
    }
    std::vector<NodeProcess> processes;
    std::vector<std::string> problems;
    if (options.run.empty()) {
        for (const int32_t pid : std::set<int32_t>(options.pids.begin(), options.pids.end())) {
            auto found = find_process(pid, options.ring_directory);
            if (found) {
                processes.push_back(*found);
            } else {
                problems.push_back(found.error().text());
            }
        }
    } else {
        const NodeProcesses found = find_processes(options.ring_directory);
        say_all(found.problems);
        processes = ranks_of_job(found, options);
        if (processes.empty()) {
            problems.push_back(fmt::format("no rank of run {}{} is on this node; {}", printable(options.run),
                                           options.attempt >= 0 ? fmt::format(", attempt {},", options.attempt) : "",
                                           runs_here(found)));
        }
    }
    say_all(problems);
    DumpResult result = dump_processes(processes, !options.run.empty(), options);
    say_all(result.problems);
    const bool all_found = problems.empty();
    result.problems.insert(result.problems.begin(), problems.begin(), problems.end());
    return report(result, all_found, options.json);
}

int run_command_line(int argc, char** argv) {
    DumpOptions options;
    CommandLine app(
        "titan-dump", TITAN_VERSION,
        "Asks traced processes for a dump, without a signal, and reads from outside those that cannot answer.",
        kFooter);
    app.option("PID", options.pids, "processes to dump").positive();
    app.option("--job", options.run, "all ranks of that run, on this node and on its others");
    app.option("--attempt", options.attempt, "attempt of that run (default: the newest)").not_negative();
    app.flag("--list", options.list, "only list the traced processes of this node that live");
    app.flag("--all", options.all, "with --list, also those that ended, after the others; --json always has them");
    app.option("--timeout", options.timeout_s, "seconds that a process gets to write its dump")
        .not_negative()
        .show_default();
    app.option("--nodes-timeout", options.nodes_timeout_s,
               "seconds, from the request on, that --job waits for ranks of other nodes; 0: not at all")
        .not_negative()
        .show_default();
    app.option("--dir", options.directory,
               "where dumps go that titan-dump writes itself (default: the process' own TITANTRACE_DIR)");
    add_ring_directory_option(app, options.ring_directory);
    app.flag("--json", options.json, "the result for each process, as JSON");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    return run(options);
}

}  // namespace
}  // namespace titan::tools

int main(int argc, char** argv) { return titan::run_program("titan-dump", titan::tools::run_command_line, argc, argv); }

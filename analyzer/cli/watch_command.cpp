// titan-analyze watch: the verdict comes by itself.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/hash.h"
#include "commands.h"
#include "diagnose.h"
#include "diagnosis_document.h"
#include "discover.h"
#include "formats/layout/label_names.h"
#include "host/node_rings.h"
#include "host/timed_commands.h"
#include "host/words.h"
#include "new_dumps.h"
#include "new_metrics.h"
#include "report.h"
#include "sentence.h"

namespace titan::analyzer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kWatchFooter =
    R"(Waits for dumps in PATH, which need not exist yet, until it is interrupted. When the ranks of a job have dumped,
it writes the verdict beside their dumps, as verdict.txt and verdict.json, prints it in one line, and runs CMD: once for
each attempt of a job, even if several watches on several nodes have the same CMD. Dumps of the last 10 minutes count,
too. If nothing hangs and no rank died, it writes nothing: dumps on request are no hang. If the records name no cause
("cannot tell"), the verdict is provisional: CMD waits, and newer dumps replace the verdict.

If a metric becomes nan while the job runs, it prints that in one line and runs CMD, once for each attempt: as soon as
a journal has it (TITANTRACE_JOURNAL_S).

CMD runs in a shell with verdict.json as its input, for at most 30 s. titan-run --on-verdict does all this for the job
that it starts. Recipes (Slack, webhooks, Slurm): docs/operate/alerts.md.

examples:
  titan-analyze watch dumps/
  titan-analyze watch /shared/dumps --on-verdict 'jq .verdict.summary | mail -s "a job hangs" oncall@example.com'
  titan-analyze watch dumps/ --run job-17 --once; scancel --name job-17

Exit status: with --once 1 after the first verdict that names a cause; 2 unusable arguments.)";

constexpr milliseconds kPause{1000};
constexpr milliseconds kShortPause{100};  // while something is going on
constexpr milliseconds kMetricsPause{2000};
constexpr int kPausesPerLook = 20;  // a slow file server is not kept busy
constexpr milliseconds kLongestPause{10'000};
// Another rank may still dump for as long after the last that did: nodes look for each other's requests every 2 s, and
// those of a large job less often.
constexpr milliseconds kQuiet{3000};
constexpr milliseconds kQuietPerRank{1};
// Then nothing more comes that could tell what is not to be told yet.
constexpr seconds kPatience{30};
constexpr seconds kCommandLimit{30};
constexpr seconds kLastLimit{10};

struct WatchArguments {
    CommonOptions common;
    DiagnoseOptions diagnose;
    std::string command;
    std::string titan_run;
    double after_s = 0;
    bool once = false;
    bool json = false;
};

// Dumps of one run that belong together, and what is known of them.
struct Incident {
    std::string dump;  // one that could be read
    DumpHead head;
    bool wanted = false;
    int64_t newest_ns = 0;  // when the newest of them was written
    size_t heads_read = 0;
    size_t diagnosed = 0;  // the dumps that there were then
};

// The newest verdict that was passed on.
struct Said {
    int64_t written_ns = 0;
    std::string line;
};

bool by_watchdog(const Run& run) {
    return std::ranges::any_of(
        run.processes, [](const Process& process) { return process.source.reason == format::DumpReason::kTimeout; });
}

// Reads the dumps that arrived since. The highest attempt counts: if a launcher counts restarts only on some nodes, one
// start of a job is in several attempts.
void read_heads(const Arrivals& arrivals, const std::string& titan_run, Incident& incident) {
    for (; incident.heads_read < arrivals.files.size(); ++incident.heads_read) {
        const std::string& file = arrivals.files[incident.heads_read];
        if (const auto head = read_dump_head(file)) {
            incident.newest_ns = std::max(incident.newest_ns, head->written_ns);
            incident.wanted = incident.wanted || titan_run.empty() || head->started_by == titan_run;
            if (incident.dump.empty() || head->attempt >= incident.head.attempt) {
                incident.head = *head;
                incident.dump = file;
            }
        }
    }
}

class Watch {
  public:
    explicit Watch(const WatchArguments& arguments)
        : arguments_(arguments), dumps_(arguments.common.paths, arguments.common.run), commands_(kCommandLimit) {}

    int run() {
        while (!ended_) {
            const auto began = WatchClock::now();
            dumps_.look();
            const auto look = std::chrono::duration_cast<milliseconds>(WatchClock::now() - began);
            consider_all();  // a diagnosis may take its time: that tells nothing of the file server
            look_at_metrics();
            say_how_commands_ended();
            if ((last_look_ && !awaits_dumps()) || (arguments_.once && told_)) {
                break;
            }
            pause(look);
        }
        if (last_look_) {
            tell_of_unknown_causes();
        }
        // A job that has ended is not held up for long.
        for (const auto until = WatchClock::now() + (is_under_titan_run() ? kLastLimit : kCommandLimit + kQuiet);
             commands_.any() && WatchClock::now() < until; std::this_thread::sleep_for(kShortPause)) {
            say_how_commands_ended();
        }
        return told_ ? kExitFindings : kExitHealthy;
    }

  private:
    bool is_under_titan_run() const { return !arguments_.titan_run.empty(); }
    const char* speaker() const { return is_under_titan_run() ? "titan-run" : "titan-analyze"; }

    void pause(milliseconds look) {
        const bool busy = !dumps_.arrivals().empty() || commands_.any();
        const milliseconds wanted = std::clamp(look * kPausesPerLook, busy ? kShortPause : kPause, kLongestPause);
        if (!is_under_titan_run() || last_look_) {
            std::this_thread::sleep_for(wanted);
            return;
        }
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        if (::poll(&input, 1, static_cast<int>(wanted.count())) > 0) {
            char word = 0;
            last_look_ = ::read(STDIN_FILENO, &word, 1) == 1;
            ended_ = !last_look_;
        }
    }

    bool awaits_dumps() const {
        return std::ranges::any_of(incidents_, [](const auto& item) { return item.second.wanted; });
    }

    void consider_all() {
        std::erase_if(dumps_.arrivals(), [&](const auto& item) {
            const auto& [directory, arrivals] = item;
            Incident& incident = incidents_[directory];
            read_heads(arrivals, arguments_.titan_run, incident);
            const bool done = is_done(arrivals, incident);
            if (done) {
                incidents_.erase(directory);
            }
            return done;
        });
    }

    // True when nothing more is to be done about them.
    bool is_done(const Arrivals& arrivals, Incident& incident) {
        const auto quiet = WatchClock::now() - arrivals.newest_at;
        if (!incident.wanted) {
            return quiet >= kQuiet;
        }
        const bool complete =
            incident.head.world_size > 0 && arrivals.processes.size() >= static_cast<size_t>(incident.head.world_size);
        const bool is_quiet = quiet >= kQuiet + std::max(incident.head.world_size, 0) * kQuietPerRank;
        const bool patient = complete || (last_look_ && is_quiet) || quiet >= kPatience;
        const bool gives_way = !last_look_ && quiet < std::chrono::duration<double>(arguments_.after_s);
        const bool is_new = is_quiet && incident.diagnosed != arrivals.files.size();
        return !gives_way && (patient || is_new) && is_settled(arrivals, incident, patient);
    }

    bool is_settled(const Arrivals& arrivals, Incident& incident, bool patient) {
        const VerdictFiles files(incident.dump, incident.head.age_ns);
        const std::optional<WrittenVerdict> there = files.read();
        if (there && (there->names_cause || is_about(*there, files, incident))) {
            pass_on(incident, files, *there);
            return true;
        }
        LoadOptions load = arguments_.common.load_options();
        load.progress = {};
        load.paths = {arrivals.directory};
        load.run = arrivals.run;
        if (arrivals.attempts.size() == 1) {
            load.attempt = incident.head.attempt;
        }
        auto run = load_run(load);
        incident.diagnosed = arrivals.files.size();
        if (!run) {
            if (patient) {
                say("{}: no verdict: {}\n", speaker(), run.error().text());
            }
            return patient;
        }
        const Diagnosis diagnosis = diagnose_worlds(*run, arguments_.diagnose);
        const bool tells = any_hangs(diagnosis.findings);
        if (tells || (patient && !diagnosis.cannot_tell.empty() && by_watchdog(*run))) {
            tell(*run, diagnosis, arrivals, incident, there ? there->written_ns : 0);
            return true;
        }
        return patient;
    }

    // A provisional verdict of somebody else who saw the same dumps. Those that came here after it was passed on are
    // newer, whatever their times say.
    bool is_about(const WrittenVerdict& there, const VerdictFiles& files, const Incident& incident) const {
        const auto said = said_.find(files.directory());
        return incident.newest_ns <= there.written_ns &&
               (said == said_.end() || said->second.written_ns != there.written_ns);
    }

    void tell(const Run& run, const Diagnosis& diagnosis, const Arrivals& arrivals, const Incident& incident,
              int64_t replaced_ns) {
        const VerdictFiles files(incident.dump, incident.head.age_ns);
        const std::string input =
            fmt::format("{} --run {} --attempt {}",
                        shell_quoted(printable(std::filesystem::path(arrivals.directory).parent_path().string())),
                        shell_quoted(printable(arrivals.run)), run.attempt);
        const std::string json = json_report(run, diagnosis);
        const Result<bool> written = files.write(json, text_report(run, diagnosis, {.input = input}), replaced_ns);
        if (!written) {
            say("{}: the verdict cannot be written to {}: {}\n", speaker(), printable(files.text_path()),
                written.error().text());
            told_ = told_ || any_hangs(diagnosis.findings);
            print_verdict(json, one_line(run, diagnosis), files);
        } else if (const auto there = files.read()) {
            pass_on(incident, files, *there);
        }
    }

    void print_verdict(const std::string& json, const std::string& line, const VerdictFiles& files) const {
        print_text(arguments_.json
                       ? json
                       : fmt::format("{}VERDICT on {}; all of it: {}\n", is_under_titan_run() ? "titan-run: " : "",
                                     printable(line), printable(files.text_path())));
        std::fflush(stdout);
    }

    // Everyone who watches prints the line; of the titan-runs of a job, whose words go to one log, one does.
    void pass_on(const Incident& incident, const VerdictFiles& files, const WrittenVerdict& verdict) {
        Said& said = said_[files.directory()];
        const bool is_new = said.written_ns != verdict.written_ns && (verdict.names_cause || said.line != verdict.line);
        said = {verdict.written_ns, verdict.line};
        if (is_new && (!is_under_titan_run() || files.take(fmt::format("{}.line", verdict.written_ns)))) {
            print_verdict(verdict.json, verdict.line, files);
        }
        if (verdict.names_cause) {
            told_ = true;
            unknown_.erase(files.directory());
            run_command(files, verdict);
        } else {
            unknown_.insert_or_assign(files.directory(), incident);
        }
    }

    void tell_of_unknown_causes() {
        for (const auto& [directory, incident] : unknown_) {
            const VerdictFiles files(incident.dump, incident.head.age_ns);
            if (const auto verdict = files.read()) {
                run_command(files, *verdict);
            }
        }
    }

    // The job trains on, so that this is no verdict that stands for the attempt: nothing is written beside the dumps.
    // Under titan-run its ranks have said it already, and each node is looked after by its own.
    void look_at_metrics() {
        const auto now = WatchClock::now();
        const bool is_alone = !is_under_titan_run();
        if (now < next_metrics_ || (!is_alone && arguments_.command.empty())) {
            return;
        }
        const std::set<std::string> journals = dumps_.journals();
        for (const NanMetric& metric : metrics_.look(is_alone ? journals : of_this_node(journals))) {
            const std::string mark = std::string(format::kStartedByVariable) + "=" + arguments_.titan_run;
            if (is_alone || has_variable(metric.pid, mark)) {
                tell(metric);
            }
        }
        const auto took = std::chrono::duration_cast<milliseconds>(WatchClock::now() - now);
        next_metrics_ = WatchClock::now() + std::max(took * kPausesPerLook, kMetricsPause);
    }

    void tell(const NanMetric& metric) {
        const RunDirectory names(metric.journal);
        LoadOptions load = arguments_.common.load_options();
        load.progress = {};
        load.paths = {std::filesystem::path(metric.journal).parent_path().parent_path()};
        load.run = names.run;
        load.attempt = std::atoi(names.attempt.c_str());
        auto run = load_run(load);
        if (!run) {
            return;  // the files have just gone
        }
        Diagnosis diagnosis = diagnose_worlds(*run, arguments_.diagnose);
        if (std::ranges::none_of(diagnosis.findings, [](const Finding& finding) {
                return finding.kind == FindingKind::kMetricNotFinite;
            })) {
            Finding& finding = *diagnosis.findings.emplace(diagnosis.findings.begin());
            finding.kind = FindingKind::kMetricNotFinite;
            finding.hangs = false;
            finding.ranks = {metric.rank};
            finding.since_ns = metric.at_ns;
            finding.summary = phrase("metric {} is nan on {}{}", metric.name, rank_fact(metric.rank),
                                     metric.step < 0 ? std::string() : fmt::format(" in step {}", metric.step));
        }
        const std::string json = json_report(*run, diagnosis);
        if (!is_under_titan_run()) {
            print_text(arguments_.json ? json : printable(one_line(*run, diagnosis)) + "\n");
            std::fflush(stdout);
        }
        const std::string& command = arguments_.command;
        const VerdictFiles files(metric.journal, metric.age_ns);
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> input(std::tmpfile(), std::fclose);
        if (command.empty() || !files.take(fmt::format("{:016x}.metric", fnv1a64(command.data(), command.size())))) {
            return;
        }
        const Fd file(input == nullptr ? -1 : ::dup(::fileno(input.get())));
        if (!file.valid() || ::pwrite(file.get(), json.data(), json.size(), 0) != static_cast<ssize_t>(json.size()) ||
            !commands_.start(command, file)) {
            say("{}: the command of --on-verdict cannot be started\n", speaker());
        }
    }

    // Once for each command and attempt, whoever else has it.
    void run_command(const VerdictFiles& files, const WrittenVerdict& verdict) {
        const std::string& command = arguments_.command;
        if (!command.empty() && files.take(fmt::format("{:016x}", fnv1a64(command.data(), command.size()))) &&
            !commands_.start(command, verdict.file)) {
            say("{}: the command of --on-verdict cannot be started\n", speaker());
        }
    }

    void say_how_commands_ended() {
        for (const std::string& how : commands_.look()) {
            say("{}: the command of --on-verdict {}\n", speaker(), how);
        }
    }

    const WatchArguments& arguments_;
    NewDumps dumps_;
    NewMetrics metrics_;
    WatchClock::time_point next_metrics_{};
    TimedCommands commands_;
    std::map<std::string, Incident> incidents_;  // by directory of the run
    // By directory of the attempt:
    std::map<std::string, Said> said_;
    std::map<std::string, Incident> unknown_;  // the newest verdict names no cause
    bool told_ = false;
    bool last_look_ = false;  // the job has ended in failure
    bool ended_ = false;      // and nobody wants to know
};

}  // namespace

Command watch_command(CommandLine& app) {
    const auto arguments = std::make_shared<WatchArguments>();
    CommandLine& command = app.command("watch", "Wait for dumps, and write the verdict beside them.", kWatchFooter);
    command.option("PATH", arguments->common.paths, "dump directories").required();
    command.option("--run", arguments->common.run, "only this run");
    command.option("--on-verdict", arguments->command, "run this for each verdict, with its JSON as input");
    command.flag("--once", arguments->once, "end after the first verdict that names a cause");
    command.flag("--json", arguments->json, "print the whole diagnosis as JSON instead of one line");
    add_hang_after(command, arguments->diagnose.hang_after_s);
    command
        .option("--after-s", arguments->after_s,
                "look at dumps only this long after the last one: another watch may be nearer")
        .not_negative();
    add_ring_directory_option(command, arguments->common.ring_directory);
    command.flag("--no-rings", arguments->common.no_rings, "do not look for rings of missing ranks on this node");
    command.option("--under-titan-run", arguments->titan_run,
                   "set by titan-run: only dumps of that job; a word on standard input ends the watch");
    return {&command, [arguments] { return Watch(*arguments).run(); }};
}

}  // namespace titan::analyzer

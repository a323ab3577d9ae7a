// titan-run: starts a program, a launcher above all, with the recorder in everything that it starts.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/seconds.h"
#include "base/signals.h"
#include "base/text.h"
#include "formats/layout/label_names.h"
#include "host/command_line.h"
#include "host/output.h"
#include "host/program.h"
#include "host/this_host.h"
#include "host/words.h"
#include "run/check.h"
#include "run/installed.h"
#include "run/job.h"
#include "run/patience.h"
#include "run/records.h"
#include "run/settings.h"
#include "run/target.h"

namespace titan::tools {
namespace {

// --- titan-analyze watch, beside the job: the verdict while it still hangs.

class VerdictWatch {
  public:
    // Watches dumps that carry `mark`. `command`: to run for the verdict, empty: none. Where it cannot be started,
    // there is no verdict before the end.
    VerdictWatch(const Settings& settings, const std::string& command, const std::string& mark);
    VerdictWatch(const VerdictWatch&) = delete;
    VerdictWatch& operator=(const VerdictWatch&) = delete;
    ~VerdictWatch();

    // The job has ended. Waits for a verdict that is being written, for a command that runs, and where the job failed
    // for what its newest dumps tell: a minute at most.
    void end(bool failed);

  private:
    pid_t pid_ = -1;
    Fd tell_;
};

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestEnd{60};
constexpr std::chrono::milliseconds kPause{5};
// For this long a node that is not the job's first leaves the dumps to that one.
constexpr const char* kGiveWayS = "10";

// As launchers number nodes, or ranks: of a node, the first task alone comes here.
bool is_a_later_node() {
    for (const char* name : {"SLURM_NODEID", "PET_NODE_RANK", "NODE_RANK", "GROUP_RANK", "OMPI_COMM_WORLD_RANK",
                             "PMIX_RANK", "PMI_RANK", "RANK", "JOB_COMPLETION_INDEX"}) {
        if (const std::string number = environment(name); !number.empty()) {
            return number != "0";
        }
    }
    return false;
}

[[noreturn]] void become(std::vector<std::string>& words, pid_t parent, int input) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::_exit(0);
    }
    ::dup2(input, STDIN_FILENO);
    // Signals are for the job; titan-run says when it has ended.
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    become_analyzer(words);
}

VerdictWatch::VerdictWatch(const Settings& settings, const std::string& command, const std::string& mark) {
    std::vector<std::string> words = {analyzer_path(), "watch", settings.dumps, "--under-titan-run", mark};
    const auto add = [&](const char* option, const std::string& value) {
        if (!value.empty()) {
            words.insert(words.end(), {option, value});
        }
    };
    add("--on-verdict", command);
    add("--ring-dir", settings.rings);
    add("--after-s", is_a_later_node() ? kGiveWayS : "");
    std::array<int, 2> pipe{};
    if (words.front().empty() || ::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        return;
    }
    const Fd input(pipe[0]);
    tell_ = Fd(pipe[1]);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
        become(words, parent, input.get());
    }
}

VerdictWatch::~VerdictWatch() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, WNOHANG);  // nobody waits for one that a dead file server holds
    }
}

void VerdictWatch::end(bool failed) {
    if (pid_ <= 0) {
        return;
    }
    if (failed) {
        const WithoutWriteSignals quiet;  // it may be gone
        [[maybe_unused]] const ssize_t told = ::write(tell_.get(), "e", 1);
    }
    tell_.close_now();
    for (const auto until = Clock::now() + kLongestEnd; Clock::now() < until; std::this_thread::sleep_for(kPause)) {
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
            pid_ = -1;
            return;
        }
    }
}

constexpr const char* kFooter = R"help(examples:
  titan-run -- torchrun --nproc-per-node=8 train.py
  titan-run --dir /shared/dumps -- srun python train.py      every task of the step inherits the settings
  srun titan-run -- python train.py                          if srun does not pass the environment on
  titan-run --on-verdict ./tell-oncall.sh -- torchrun ...    runs the script when the job hangs
  titan-run --check                                          what can be recorded on this machine
  eval "$(titan-run --print-env)"                            to set the variables yourself

titan-run sets LD_PRELOAD (other libraries in it stay, in front) and TITANTRACE_DIR, says in one line where dumps will
be, and runs the program. Signals, the terminal and the exit status are the program's own. If the program fails or a
rank dumped, titan-run prints the verdict on the records of this node to standard error.

When the job hangs, wait: after TITANTRACE_TIMEOUT_S (300 s) every rank dumps. The verdict follows within seconds, while
the job still hangs: one line here, and verdict.txt and verdict.json beside the dumps. --on-verdict then runs a command
(docs/operate/alerts.md); --no-verdict switches all of this off. Meanwhile: titan-top, titan-dump --list.

A program that cannot take the preload (another architecture, musl, setuid) still runs, and one line says so. All
settings: docs/reference/settings.md. TITANTRACE=0 switches everything off.

Exit status: the program's; 126 or 127 if it cannot be run, 2 if the arguments are wrong.)help";

// Read within seconds. Each node's titan-run would read them all.
constexpr size_t kMostDumps = 1000;
constexpr size_t kMostJournals = 64;

struct Options {
    Settings settings;
    std::string directory;
    bool check = false;
    bool print_env = false;
    bool no_verdict = false;
    std::string on_verdict;
};

// One of several tasks that a launcher started on this node, and not the first: the first one speaks.
bool is_a_later_task() {
    for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
        if (const std::string task = environment(name); !task.empty()) {
            return task != "0";
        }
    }
    return false;
}

std::string value_or(const std::string& chosen, const char* variable, const char* otherwise) {
    const std::string set = environment(variable);
    return !chosen.empty() ? chosen : !set.empty() ? set : otherwise;
}

void complete(Options& options) {
    Settings& settings = options.settings;
    settings.library = settings.library.empty() ? library_path() : settings.library;
    std::error_code failed;
    if (!settings.library.empty()) {
        settings.library = std::filesystem::absolute(settings.library, failed).lexically_normal();
    }
    const std::string directory = value_or(options.directory, "TITANTRACE_DIR", "dumps");
    settings.dumps = std::filesystem::absolute(directory, failed).lexically_normal();
    if (settings.dumps.size() > 1 && settings.dumps.ends_with('/')) {
        settings.dumps.pop_back();
    }
}

// The reason why less or nothing will be recorded, in one line. Sets `preload` to whether the program can start with
// it.
std::string obstacle_for(const Settings& settings, const std::string& program, bool& preload) {
    preload = false;
    if (settings.library.empty() || ::access(settings.library.c_str(), R_OK) != 0) {
        return fmt::format("{} is not there",
                           settings.library.empty() ? "libtitantrace.so" : printable(settings.library));
    }
    if (settings.library.find_first_of(" :") != std::string::npos) {
        return fmt::format("the loader preloads nothing from a path with a blank or colon: {}",
                           printable(settings.library));
    }
    const Target target = look_at(program, settings.library);
    preload = target.preload;
    return target.obstacle;
}

void say_what_will_be(const Settings& settings, const std::string& obstacle) {
    if (!obstacle.empty()) {
        say("titan-run: NOT RECORDED: {}\n", obstacle);
        return;
    }
    const std::string trouble = trouble_with_dumps(settings.dumps);
    say("titan-run: recording; {}{}\n", trouble.empty() ? "dumps will be in " : "NO DUMPS: ",
        trouble.empty() ? printable(settings.dumps) + "/" : trouble);
}

void analyze(const Settings& settings, const std::string& run, std::vector<std::string> command) {
    const std::string chosen = !run.empty() ? run : value_or(settings.run, "TITANTRACE_RUN_ID", "");
    if (!chosen.empty()) {
        command.insert(command.end(), {"--run", chosen});
    }
    if (!settings.rings.empty()) {
        command.insert(command.end(), {"--ring-dir", settings.rings});
    }
    if (command.front().empty()) {
        say("titan-run: titan-analyze is not beside titan-run: no verdict\n");
        return;
    }
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        become_analyzer(command);
    }
    ::waitpid(child, nullptr, 0);
}

void print_verdict(const Settings& settings, const std::string& run) {
    say("titan-run: the job ended; verdict on the records of this node (again: titan-analyze {}):\n",
        shell_quoted(settings.dumps));
    analyze(settings, run, {analyzer_path(), settings.dumps});
}

// For a job that marks its steps and dumped nothing.
void say_how_it_ended(const Settings& settings, const Records::NewFiles& found) {
    if (found.journals <= kMostJournals) {
        analyze(settings, found.run, {analyzer_path(), settings.dumps, "--oneline"});
        analyze(settings, found.run, {analyzer_path(), "summary", settings.dumps, "--brief"});
    }
    say("titan-run: the record of its steps is in {}/{} (titan-analyze summary {})\n", printable(settings.dumps),
        printable(found.run), shell_quoted(settings.dumps));
}

void say_what_was(const Settings& settings, const Records& records, const Ended& ended, bool dumps_answer) {
    if (!dumps_answer) {
        say("titan-run: the job ended; no verdict, as {} does not answer (later: titan-analyze {})\n",
            printable(settings.dumps), shell_quoted(settings.dumps));
        return;
    }
    const Records::NewFiles found = records.new_files();
    if (found.dumps > kMostDumps) {
        say("titan-run: the job ended; {} dumps are in {}: to be read once, not by each node "
            "(titan-analyze {}, or titan-analyze digest --help)\n",
            found.dumps, printable(settings.dumps), shell_quoted(settings.dumps));
        return;
    }
    const bool failed = ended.status != 0 || ended.signal != 0;
    if (found.dumps != 0 || (failed && (found.journals != 0 || records.has_new_rings()))) {
        print_verdict(settings, found.run);
    } else if (found.journals != 0) {
        say_how_it_ended(settings, found);
    } else if (!records.anything_recorded()) {
        say("titan-run: nothing was recorded on this node: no process that has the library used NCCL or CUDA, "
            "nor marked anything as a rank (RANK and WORLD_SIZE). If one should have, its launcher may clear the "
            "environment: titan-run --print-env shows what it must pass on\n");
    } else if (failed) {
        say("titan-run: the job left no record on this node\n");
    }
}

// Work around the program: if it fails, the program still runs and ends as it does.
template <typename Work>
void try_to(Work work) {
    try {
        work();
    } catch (const std::exception& error) {
        for (const char* part : {"titan-run: ", error.what(), "\n"}) {
            say_text(part);
        }
    }
}

bool speaks() {
    const bool inside = !environment(format::kStartedByVariable).empty() && is_preloaded_already();
    return !inside && !is_a_later_task() && takes_words(STDERR_FILENO);
}

// By which dumps of this job are known from those of others in the same directory: unique, and on all of its nodes. A
// titan-run inside another leaves the mark of the one that speaks.
std::string mark_of_this_job(bool is_first) {
    std::string around = environment(format::kStartedByVariable);
    if (!is_first && !around.empty()) {
        return around;
    }
    return fmt::format("{}.{}.{}", safe_file_name(this_host()), ::getpid(), process_start_ticks(::getpid()));
}

int run_program_of(const Options& options, const std::vector<std::string>& command) {
    std::string obstacle;
    bool is_first = false;
    std::optional<Records> records;
    std::optional<VerdictWatch> watch;
    try_to([&] {
        bool preload = false;
        obstacle = obstacle_for(options.settings, command.front(), preload);
        is_first = speaks();
        if (is_first && !find_program(command.front()).empty()) {
            say_what_will_be(options.settings, obstacle);
        }
        put_into_environment(options.settings, preload);
        const std::string mark = mark_of_this_job(is_first);
        ::setenv(format::kStartedByVariable, mark.c_str(), 1);
        records.emplace(options.settings.dumps, options.settings.rings);
        if (is_first && obstacle.empty() && !options.no_verdict && !is_off(environment("TITANTRACE").c_str())) {
            watch.emplace(options.settings, options.on_verdict, mark);
        }
    });
    const Ended ended = run_job(command);
    try_to([&] {
        const bool tells = ended.started && is_first && obstacle.empty() && records && !options.no_verdict;
        const bool dumps_answer = tells && answers(options.settings.dumps);
        const bool is_heard = tells && takes_words(STDERR_FILENO);
        if (watch && dumps_answer && is_heard) {
            watch->end(ended.status != 0 || ended.signal != 0);
        }
        watch.reset();
        if (is_heard) {
            say_what_was(options.settings, *records, ended, dumps_answer);
        }
    });
    end_as(ended);
}

// The words after "--"; without one, all words, if the first is no option.
std::vector<std::string> take_command(int& argc, char** argv) {
    int first = 1;
    if (argc > 1 && argv[1][0] == '-') {
        while (first < argc && std::strcmp(argv[first], "--") != 0) {
            ++first;
        }
    }
    const bool marked = first < argc && std::strcmp(argv[first], "--") == 0;
    std::vector<std::string> command(argv + std::min(argc, first + (marked ? 1 : 0)), argv + argc);
    argc = first;
    return command;
}

// The tracer reads it, in each rank, and would take its default for a value that it cannot use.
void check_timeout(const std::string& text) {
    uint64_t nanoseconds = 0;
    if (!text.empty() && !parse_seconds(text.c_str(), nanoseconds)) {
        throw CommandLineError(
            fmt::format("--timeout takes seconds such as 300 or 0.5 (0: never), not '{}'", printable(text)));
    }
}

int run_command_line(int argc, char** argv) {
    const std::vector<std::string> command = take_command(argc, argv);
    Options options;
    CommandLine app("titan-run", TITAN_VERSION,
                    "Starts a program, a launcher above all, with the recorder in everything that it starts:\n"
                    "titan-run [OPTIONS] -- PROGRAM [ARGUMENTS]",
                    kFooter);
    app.option("--dir", options.directory,
               "where dumps go; all nodes must share it (default: TITANTRACE_DIR, or dumps)");
    app.option("--ring-dir", options.settings.rings, "where rings go, local to the node (TITANTRACE_RING_DIR)");
    app.option("--run", options.settings.run, "name of the run, the same on all nodes (TITANTRACE_RUN_ID)");
    app.option("--timeout", options.settings.timeout_s,
               "seconds after which a waiting call makes all ranks dump (TITANTRACE_TIMEOUT_S)");
    app.option("--library", options.settings.library,
               "which libtitantrace.so (default: the one installed with titan-run)");
    app.option("--on-verdict", options.on_verdict,
               "when the job hangs or has lost a rank, run this command with the verdict's JSON as input, once");
    app.flag("--no-verdict", options.no_verdict, "no verdict, neither while the job hangs nor when it has ended");
    app.flag("--check", options.check, "show what can be recorded on this machine; status 1 if something is missing");
    app.flag("--print-env", options.print_env, "print the variables for a shell, and run nothing");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    check_timeout(options.settings.timeout_s);
    complete(options);
    if (options.check) {
        return print_check(options.settings) ? 0 : 1;
    }
    if (options.print_env) {
        print("{}", export_lines(options.settings));
        return 0;
    }
    if (command.empty()) {
        throw CommandLineError("no command given: titan-run [OPTIONS] -- PROGRAM [ARGUMENTS]");
    }
    return run_program_of(options, command);
}

}  // namespace
}  // namespace titan::tools

int main(int argc, char** argv) { return titan::run_program("titan-run", titan::tools::run_command_line, argc, argv); }

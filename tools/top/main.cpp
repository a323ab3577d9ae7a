// titan-top: the current activity of the ranks of this node, or the last one of a run from its records.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "host/command_line.h"
#include "host/output.h"
#include "host/program.h"
#include "host/words.h"
#include "top/view.h"

namespace titan::tools {
namespace {

// --- The terminal as a page that is drawn anew: its other screen, no cursor, single keys. Left as it was found, also
// when a signal ends us or the shell takes the terminal back (Ctrl-Z).

class Terminal {
  public:
    Terminal();  // uses standard input and output, which must be terminals
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    struct Size {
        size_t columns;
        size_t lines;
    };
    static Size size();

    // False: standard output is gone.
    bool draw(const std::string& view);

    enum class Event { kTime, kLeave, kRedraw };
    // Until a key or a signal asks to leave, something asks for a new page, or the time is over.
    Event wait(int timeout_ms);
};

constexpr char kEnter[] = "\033[?1049h\033[?25l";
constexpr char kLeave[] = "\033[?25h\033[?1049l";

termios found{};
volatile sig_atomic_t asked_to_leave = 0;
volatile sig_atomic_t asked_to_redraw = 0;

void write_all(const char* text, size_t bytes) {
    while (bytes != 0) {
        const ssize_t written = ::write(STDOUT_FILENO, text, bytes);
        if (written <= 0) {
            return;
        }
        text += written;
        bytes -= static_cast<size_t>(written);
    }
}

// signal-safe.
void take() {
    termios raw = found;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all(kEnter, sizeof(kEnter) - 1);
}

void give_back() {
    write_all(kLeave, sizeof(kLeave) - 1);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

void leave(int) { asked_to_leave = 1; }
void redraw(int) { asked_to_redraw = 1; }

void on(int number, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(number, &action, nullptr);  // no SA_RESTART: waiting ends
}

void stop(int) {
    const int saved_errno = errno;
    give_back();
    on(SIGTSTP, SIG_DFL);
    sigset_t unblocked;
    sigemptyset(&unblocked);
    sigaddset(&unblocked, SIGTSTP);
    ::raise(SIGTSTP);
    ::sigprocmask(SIG_UNBLOCK, &unblocked, nullptr);  // here we stop, and here we go on
    on(SIGTSTP, stop);
    take();
    asked_to_redraw = 1;
    errno = saved_errno;
}

Terminal::Terminal() {
    ::tcgetattr(STDIN_FILENO, &found);
    take();
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        on(number, leave);
    }
    on(SIGPIPE, SIG_IGN);
    on(SIGWINCH, redraw);
    on(SIGTSTP, stop);
}

Terminal::~Terminal() { give_back(); }

Terminal::Size Terminal::size() {
    winsize window{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
        return {80, 24};
    }
    return {window.ws_col, window.ws_row};
}

bool Terminal::draw(const std::string& view) {
    const std::string text = printable(view, Keep::kOwnLines);
    // Home, each line with its rest erased, then what is below: nothing flickers.
    std::string page = "\033[H";
    for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        page += text.substr(at, end - at) + "\033[K";
        at = end == std::string::npos ? text.size() : end + 1;
        page += at < text.size() ? "\n" : "";  // the terminal makes a whole new line of it
    }
    page += "\033[J";
    write_all(page.data(), page.size());
    return ::isatty(STDOUT_FILENO) != 0;
}

Terminal::Event Terminal::wait(int timeout_ms) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&input, 1, timeout_ms);
    if (asked_to_leave != 0) {
        return Event::kLeave;
    }
    if (asked_to_redraw != 0) {
        asked_to_redraw = 0;
        return Event::kRedraw;
    }
    if (ready > 0) {
        char key = 0;
        const ssize_t got = ::read(STDIN_FILENO, &key, 1);
        const bool gone = got <= 0 && (input.revents & (POLLHUP | POLLERR)) != 0;
        return gone || (got == 1 && (key == 'q' || key == 'Q')) ? Event::kLeave : Event::kRedraw;
    }
    return Event::kTime;
}

constexpr int kExitFine = 0;
constexpr int kExitUnusable = 2;

constexpr const char* kFooter = R"(examples:
  titan-top                      a page, redrawn each second; q or Ctrl-C leaves
  titan-top --job job-17         only that run
  titan-top --once               one page, even without a terminal
  titan-top --json --count 60 > minute.jsonl
  titan-top dumps/               how a run ended, one page

With PATH, one page from the records there (dumps, rings and journals of the newest run, or of --job): its last state,
and when that was. Steps per second and the spans of a step are those of the last ten seconds on record.

The first line of a run names the rank that all others wait for, at the end of the chains of waits, and what it does:
a look at the moment, no verdict. If the window is too small for all ranks, that rank comes first.

For each process: its step, its steps per second over the last ten seconds, its innermost span, the call that its NCCL
thread is inside and for how long, and which ranks that call waits for. For each communicator: the oldest call that
a rank waits in, else the last one; how long it has been pending, which ranks of this node have joined, which have not,
and how many are on other nodes. "?": the GPU is not observed (TITANTRACE_GPU_PROGRESS=off), or not at each launch
(TITANTRACE_BUDGET), so it is not known whether the call is over.

Processes: running, stopped (SIGSTOP or a debugger), silent (no heartbeat for 5 s), zombie, dead, crashed, exited.

titan-top only reads: it never writes to, maps or locks rings, and wakes no process. Reading needs no signal, and no
permission except that of the job's user; root sees the jobs of all users. For a verdict: titan-dump --job RUN, then
titan-analyze.

Exit status: 0, or 2 with wrong arguments, without any traced process, or without a record at PATH.)";

struct TopOptions {
    ViewOptions view;
    double interval_s = 1;
    uint64_t count = 0;  // 0: no end
    bool once = false;
    bool json = false;
};

bool use_colour() {
    const char* no_colour = std::getenv("NO_COLOR");
    return no_colour == nullptr || *no_colour == '\0';
}

// Pages one below the other.
int run_plain(const TopOptions& options, uint64_t count) {
    ImageBuffer memory;
    bool any = false;
    auto next = std::chrono::steady_clock::now();
    for (uint64_t page = 0; count == 0 || page < count; ++page) {
        if (page != 0) {
            std::this_thread::sleep_until(next);
        }
        next += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options.interval_s));
        const NodeView view = look_at_node(options.view, memory);
        any = any || !view.jobs.empty();
        const std::string text =
            options.json ? view_json(view) : (page != 0 ? "\n" : "") + view_text(view, 0, 0, false);
        if (!print_text(text) || std::fflush(stdout) != 0) {
            return kExitUnusable;
        }
    }
    if (!any) {
        say("titan-top: no traced process {}on this node; titan-dump --list shows what else there is\n",
            options.view.run.empty() ? "" : "of that run ");
    }
    return any ? kExitFine : kExitUnusable;
}

int run_on_records(const TopOptions& options, bool colour) {
    const Result<NodeView> view = look_at_records(options.view);
    if (!view) {
        say("titan-top: {}\n", view.error().text());
        return kExitUnusable;
    }
    const size_t columns = colour ? Terminal::size().columns : 0;
    return print_text(options.json ? view_json(*view) : view_text(*view, columns, 0, colour && use_colour()))
               ? kExitFine
               : kExitUnusable;
}

int run_on_terminal(const TopOptions& options, uint64_t count) {
    ImageBuffer memory;
    Terminal terminal;
    const auto interval =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options.interval_s));
    auto next = std::chrono::steady_clock::now();
    NodeView view;
    uint64_t page = 0;
    for (auto event = Terminal::Event::kTime; event != Terminal::Event::kLeave;) {
        if (event == Terminal::Event::kTime) {
            view = look_at_node(options.view, memory);
            ++page;
            next = std::max(next + interval, std::chrono::steady_clock::now());
        }
        const Terminal::Size size = Terminal::size();
        if (!terminal.draw(view_text(view, size.columns, size.lines, use_colour())) || page == count) {
            break;
        }
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
        event = terminal.wait(static_cast<int>(std::max<int64_t>(0, left.count())));
    }
    return kExitFine;
}

int run_command_line(int argc, char** argv) {
    TopOptions options;
    CommandLine app("titan-top", TITAN_VERSION,
                    "Shows what the ranks of this node do and who waits for whom, from their rings.", kFooter);
    app.option("PATH", options.view.paths, "records of a run, as for titan-analyze (default: the rings of this node)");
    app.option("--job", options.view.run, "only that run");
    app.option("--interval", options.interval_s, "seconds between pages").between(0.05, 86400).show_default();
    app.option("--count", options.count, "leave after that many pages (default: one without a terminal, else no end)")
        .positive();
    app.flag("--once", options.once, "one page, as plain text");
    app.flag("--json", options.json, "one JSON object in a line for each page");
    app.flag("--dead", options.view.dead_jobs, "also jobs with no living process");
    add_ring_directory_option(app, options.view.ring_directory);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    const bool terminal = ::isatty(STDOUT_FILENO) != 0;
    if (!options.view.paths.empty()) {
        return run_on_records(options, terminal && !options.once && !options.json);
    }
    if (terminal && ::isatty(STDIN_FILENO) != 0 && !options.once && !options.json) {
        return run_on_terminal(options, options.count);
    }
    return run_plain(options, options.once || (options.count == 0 && !terminal) ? 1 : options.count);
}

}  // namespace
}  // namespace titan::tools

int main(int argc, char** argv) { return titan::run_program("titan-top", titan::tools::run_command_line, argc, argv); }

#include "top/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "host/words.h"

namespace titan::tools {
namespace {

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

}  // namespace

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

}  // namespace titan::tools

#include "host/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace titan {
namespace {

// Keeps back the signals of a write: of a pipe without a reader, of a file at its limit, of a terminal that stops background jobs.
class WithoutWriteSignals {
  public:
    WithoutWriteSignals() {
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTTOU);
        for (const int number : kOfFailures) {
            sigaddset(&blocked, number);
        }
        ::sigpending(&pending_before_);
        ::pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
    }
    WithoutWriteSignals(const WithoutWriteSignals&) = delete;
    WithoutWriteSignals& operator=(const WithoutWriteSignals&) = delete;
    ~WithoutWriteSignals() {
        for (const int number : kOfFailures) {
            if (sigismember(&pending_before_, number) == 0) {
                sigset_t one;
                sigemptyset(&one);
                sigaddset(&one, number);
                const timespec now{};
                ::sigtimedwait(&one, nullptr, &now);
            }
        }
        ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    }

  private:
    static constexpr int kOfFailures[] = {SIGPIPE, SIGXFSZ};
    sigset_t pending_before_{};
    sigset_t mask_before_{};
};

bool reader_is_gone() {
    pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void say_text(std::string_view text) {
    const WithoutWriteSignals quiet;
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

bool print_text(const std::string& text) { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size(); }

void keep_standard_descriptors() {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(standard, F_GETFD) == -1) {
            // Gets the lowest free number, this one; the wrong way round, so that its use fails as before.
            ::open("/dev/null", (standard == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

bool finish_output(const char* program) {
    const bool written = std::fflush(stdout) == 0;
    const int error = errno;
    if (written && std::ferror(stdout) == 0) {
        return true;
    }
    if (!reader_is_gone()) {
        say("{}: cannot write to standard output{}{}\n", program, written ? "" : ": ",
            written ? "" : std::strerror(error));
    }
    return false;
}

}  // namespace titan

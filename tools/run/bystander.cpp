#include "run/bystander.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace titan::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kName = "titan-bystander";
constexpr int kPatienceMs = 50;
constexpr std::chrono::seconds kForgotten{1};

struct Received {
    int number;
    pid_t sender;
    Clock::time_point at;
};

[[noreturn]] void stand_by(pid_t parent, int tell) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::_exit(0);
    }
    // pkill by the name of titan-run means titan-run alone.
    ::prctl(PR_SET_NAME, kName);
    std::strncpy(program_invocation_name, kName, std::strlen(program_invocation_name));
    // A reader of the program's output waits for the program's end, and must not wait for this process.
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        ::dup2(tell, standard);
    }
    ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    while (true) {
        siginfo_t info{};
        const int number = ::sigwaitinfo(&all, &info);
        const Received received{.number = number, .sender = info.si_pid, .at = Clock::now()};
        // One that does not fit is passed on twice.
        [[maybe_unused]] const ssize_t told = ::write(STDOUT_FILENO, &received, sizeof(received));
    }
}

}  // namespace

Bystander::Bystander() {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return;
    }
    told_ = Fd(pipe[0]);
    const Fd tell(pipe[1]);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
        stand_by(parent, tell.get());
    }
}

Bystander::~Bystander() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

bool Bystander::received(int number, pid_t sender) {
    pollfd waits{.fd = told_.get(), .events = POLLIN, .revents = 0};
    while (pid_ > 0 && ::poll(&waits, 1, kPatienceMs) > 0) {
        Received received{};
        if (::read(told_.get(), &received, sizeof(received)) != sizeof(received)) {
            return false;
        }
        if (received.number == number && received.sender == sender && Clock::now() - received.at < kForgotten) {
            return true;
        }
    }
    return false;
}

}  // namespace titan::tools

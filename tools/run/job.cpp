#include "run/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/fd.h"
#include "host/mapped.h"
#include "host/output.h"
#include "host/words.h"

namespace titan::tools {
namespace {

// --- A process beside the program that receives signals sent to all: slurmstepd signals each process of a step, mpirun
// and timeout(1) a process group. The program has received the same signals, so they need not be passed on.

class Bystander {
  public:
    // All that may be asked for is blocked by then. Where there can be none, every signal counts as sent to this
    // process alone.
    Bystander();
    Bystander(const Bystander&) = delete;
    Bystander& operator=(const Bystander&) = delete;
    ~Bystander();

    // Waits for it a moment: a sender takes one process after another.
    bool received(int number, pid_t sender);

  private:
    pid_t pid_ = -1;
    Fd told_;
};

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

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// All signals but those that stop or continue a process, and those that it raises itself.
sigset_t passed_signals() {
    sigset_t set;
    sigfillset(&set);
    for (const int own :
         {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT}) {
        sigdelset(&set, own);
    }
    return set;
}

// Signal state that titan-run was started with, and changed for itself.
struct Signals {
    sigset_t mask{};
    bool ignored_child = false;
};

// Returns, with why, only if the program cannot be run.
int become(const std::vector<std::string>& command, const Signals& signals) {
    std::vector<char*> arguments =
        mapped(command, [&](const std::string& word) { return const_cast<char*>(word.c_str()); });
    arguments.push_back(nullptr);
    if (signals.ignored_child) {
        ::signal(SIGCHLD, SIG_IGN);
    }
    ::sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
    ::execvp(arguments[0], arguments.data());
    return errno;
}

void say_cannot_run(const std::vector<std::string>& command, int error) {
    say("titan-run: cannot run {}: {}\n", printable(command.front()), std::strerror(error));
}

int status_of(int error) { return error == ENOENT ? kNotFound : kCannotExecute; }

// Runs the program even if no other process can be created, but then without a verdict at its end.
[[noreturn]] void run_in_place(const std::vector<std::string>& command, const Signals& signals) {
    const int error = become(command, signals);
    say_cannot_run(command, error);
    ::_exit(status_of(error));
}

[[noreturn]] void run_as_child(const std::vector<std::string>& command, const Signals& signals, pid_t parent,
                               int failure) {
    // A signal that kills titan-run kills the job, too, as if titan-run were not there.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::raise(SIGKILL);
    }
    const int error = become(command, signals);
    [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof(error));
    ::_exit(status_of(error));
}

// The terminal's own go to all of the foreground, and others send to all of a group or a Slurm step: to the program as
// well.
bool sent_to_program(pid_t child, const siginfo_t& info, Bystander& bystander) {
    return info.si_code == SI_KERNEL ||
           (::getpgid(child) == ::getpgrp() && bystander.received(info.si_signo, info.si_pid));
}

Ended wait_for_end(pid_t child, const sigset_t& passed) {
    Bystander bystander;
    while (true) {
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) == child) {
            return WIFSIGNALED(status) ? Ended{.signal = WTERMSIG(status)} : Ended{.status = WEXITSTATUS(status)};
        }
        siginfo_t info{};
        const int number = ::sigwaitinfo(&passed, &info);
        if (number > 0 && number != SIGCHLD && !sent_to_program(child, info, bystander)) {
            ::kill(child, number);
        }
    }
}

}  // namespace

Ended run_job(const std::vector<std::string>& command) {
    const sigset_t passed = passed_signals();
    Signals before;
    ::sigprocmask(SIG_BLOCK, &passed, &before.mask);
    // Ignored, it would take the exit status away; the program gets it back as it was.
    struct sigaction child_action {};
    ::sigaction(SIGCHLD, nullptr, &child_action);
    before.ignored_child = child_action.sa_handler == SIG_IGN;
    ::signal(SIGCHLD, SIG_DFL);

    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        run_in_place(command, before);
    }
    const Fd failure(pipe[0]);
    Fd write_end(pipe[1]);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
        run_in_place(command, before);
    }
    if (child == 0) {
        run_as_child(command, before, parent, write_end.get());
    }
    write_end.close_now();
    int error = 0;
    const bool started = ::read(failure.get(), &error, sizeof(error)) != sizeof(error);
    Ended ended = wait_for_end(child, passed);
    ended.started = started;
    if (!started) {
        say_cannot_run(command, error);
    }
    ::sigprocmask(SIG_SETMASK, &before.mask, nullptr);
    return ended;
}

void end_as(const Ended& ended) {
    if (ended.signal != 0) {
        const rlimit no_core{0, 0};
        ::setrlimit(RLIMIT_CORE, &no_core);
        ::signal(ended.signal, SIG_DFL);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, ended.signal);
        ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
        ::raise(ended.signal);
    }
    ::_exit(ended.signal != 0 ? 128 + ended.signal : ended.status);
}

}  // namespace titan::tools

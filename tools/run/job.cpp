#include "run/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/fd.h"
#include "host/output.h"
#include "host/words.h"
#include "run/bystander.h"

namespace titan::tools {
namespace {

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
    std::vector<char*> arguments;
    for (const std::string& word : command) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
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

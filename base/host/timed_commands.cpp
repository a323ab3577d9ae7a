#include "host/timed_commands.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "host/words.h"

namespace titan {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void become(const std::string& command, int input) {
    ::setpgid(0, 0);
    ::dup2(input, STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::unsetenv("LD_PRELOAD");  // it is no part of the job
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
}

}  // namespace

TimedCommands::~TimedCommands() {
    for (const Running& one : running_) {
        ::kill(-one.pid, SIGKILL);
    }
}

bool TimedCommands::start(const std::string& command, const Fd& input) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        become(command, input.get());
    }
    if (pid > 0) {
        ::setpgid(pid, pid);  // whoever comes first: it must be so before it is ended
        running_.push_back({pid, Clock::now() + limit_});
    }
    return pid > 0;
}

std::vector<std::string> TimedCommands::look() {
    std::vector<std::string> said;
    std::erase_if(running_, [&](Running& one) {
        int status = 0;
        if (::waitpid(one.pid, &status, WNOHANG) == one.pid) {
            if (one.killed) {
                said.push_back(fmt::format("did not end within {} s and was killed", limit_.count()));
            } else if (WIFSIGNALED(status)) {
                said.push_back("was ended by " + signal_text(WTERMSIG(status)));
            } else if (WEXITSTATUS(status) != 0) {
                said.push_back(fmt::format("ended with status {}", WEXITSTATUS(status)));
            }
            return true;
        }
        if (!one.killed && Clock::now() >= one.ends_at) {
            one.killed = true;
            ::kill(-one.pid, SIGKILL);  // all that it started
        }
        return false;
    });
    return said;
}

}  // namespace titan

#include "run/verdict_watch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/signals.h"
#include "run/installed.h"

namespace titan::tools {
namespace {

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

}  // namespace

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

}  // namespace titan::tools

#include "run/patience.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/fd.h"

namespace titan::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{3};
constexpr int kPatienceOfWordsMs = 1000;

[[noreturn]] void answer(const std::function<std::string()>& question, int tell) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // A reader of the program's output waits for the program's end, and must not wait for this process.
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        ::dup2(tell, standard);
    }
    try {
        const std::string words = question();
        ::_exit(::write(tell, words.data(), words.size()) == static_cast<ssize_t>(words.size()) ? 0 : 1);
    } catch (...) {
        ::_exit(1);
    }
}

bool readable(int descriptor, Clock::time_point deadline) {
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd waits{.fd = descriptor, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&waits, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
        if (ready >= 0 || errno != EINTR) {
            return ready > 0;
        }
    }
}

}  // namespace

std::optional<std::string> answer_in_time(const std::function<std::string()>& question) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        return question();
    }
    const Fd told(pipe[0]);
    Fd tell(pipe[1]);
    const pid_t child = ::fork();
    if (child < 0) {
        return question();
    }
    if (child == 0) {
        answer(question, tell.get());
    }
    tell.close_now();
    const auto deadline = Clock::now() + kPatience;
    std::string words;
    std::array<char, 4096> part{};
    while (readable(told.get(), deadline)) {
        const ssize_t got = ::read(told.get(), part.data(), part.size());
        if (got <= 0) {
            ::waitpid(child, nullptr, 0);
            return words;
        }
        words.append(part.data(), static_cast<size_t>(got));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, WNOHANG);  // nobody waits for a process that cannot be killed now
    return std::nullopt;
}

bool takes_words(int descriptor) {
    pollfd waits{.fd = descriptor, .events = POLLOUT, .revents = 0};
    return ::poll(&waits, 1, kPatienceOfWordsMs) != 0;
}

}  // namespace titan::tools

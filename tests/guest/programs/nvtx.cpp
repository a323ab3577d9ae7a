// A rank that starts a helper program without the preload, on purpose; both mark their work with NVTX.
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <iterator>

#include "client.h"

using client::say;

namespace {

long threads() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

int rank() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    nvtxRangePushA("helper");
    unsetenv("LD_PRELOAD");
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "helper", "helper", nullptr);
        _exit(1);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    nvtxRangePop();
    return status;
}

// It has the environment of a rank.
int helper() {
    const int depth = nvtxRangePushA("loading");
    struct sigaction term {};
    sigaction(SIGTERM, nullptr, &term);
    say("%s, %ld thread, SIGTERM %s", depth >= 0 ? "a tool listens" : "no tool listens", threads(),
        term.sa_handler == SIG_DFL ? "as it was" : "is taken");
    nvtxRangePop();
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"rank", rank}, {"helper", helper}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

// A program whose main thread is bound to one processor and has a real-time policy when it first calls NCCL.
#include <dirent.h>
#include <errno.h>
#include <sched.h>

#include "client.h"

using client::say;

namespace {

// Of each thread of the process: its policy, and on how many processors it may run.
int policies() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
    const sched_param priority{.sched_priority = 5};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        say("not allowed: %s", std::strerror(errno));
    }
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    say("ready");
    client::await("go");
    DIR* const threads = opendir("/proc/self/task");
    while (const dirent* thread = readdir(threads)) {
        const int tid = std::atoi(thread->d_name);
        char name[32] = "";
        FILE* const file = std::fopen(("/proc/self/task/" + std::string(thread->d_name) + "/comm").c_str(), "r");
        cpu_set_t mask;
        if (tid != 0 && file != nullptr && std::fgets(name, sizeof(name), file) != nullptr &&
            sched_getaffinity(tid, sizeof(mask), &mask) == 0) {
            std::fprintf(stderr, "policy %d, processors %d: %s", sched_getscheduler(tid), CPU_COUNT(&mask), name);
        }
        if (file != nullptr) {
            std::fclose(file);
        }
    }
    closedir(threads);
    r.leave();
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"policies", policies}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

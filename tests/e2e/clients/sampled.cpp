// Programs whose stacks are sampled while they run (TITANTRACE_STACK_SAMPLES_S).
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "client.h"

using client::Rank;
using client::say;

// Not inlined, and not left by a jump: each is a frame.
#define A_FRAME __attribute__((noinline, noclone))

namespace {

std::atomic<int> own_signals{0};

uint64_t now_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

A_FRAME void spinning(int for_ms) {
    const uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(for_ms) * 1'000'000;
    while (now_ns(CLOCK_MONOTONIC) < end_ns) {
    }
}

bool may_go() {
    struct stat status {};
    return stat(client::meeting("go").c_str(), &status) == 0;
}

void spin_until_go() {
    while (!may_go()) {
        spinning(50);
    }
}

// How many of its waits were ended early.
A_FRAME int waiting(int times) {
    int ended = 0;
    for (int i = 0; i < times && !may_go(); ++i) {
        ended += poll(nullptr, 0, 100) == -1 ? 1 : 0;
    }
    return ended;
}

void* use_nccl_and_wait(void* of) {
    Rank& rank = *static_cast<Rank*>(of);
    rank.reduce_and_sync();
    say("%d waits of the helper ended early", waiting(10'000));
    return nullptr;
}

void start(Rank& rank) {
    rank.join();
    rank.reduce_and_sync();
}

int finish(Rank& rank) {
    rank.reduce_and_sync();
    say("done");
    return 0;
}

// Whoever handles a signal of this thread does so on it. Set up without libc, which the tracer would hear of.
char handlers_stack[256 << 10];

// The main thread runs, another that uses NCCL waits.
int places() {
    Rank rank;
    start(rank);
    const stack_t alternative{handlers_stack, 0, sizeof(handlers_stack)};
    REQUIRE(syscall(SYS_sigaltstack, &alternative, nullptr) == 0);
    pthread_t helper;
    REQUIRE(pthread_create(&helper, nullptr, use_nccl_and_wait, &rank) == 0);
    pthread_setname_np(helper, "helper_7");
    spin_until_go();
    pthread_join(helper, nullptr);
    if (std::any_of(std::begin(handlers_stack), std::end(handlers_stack), [](char byte) { return byte != 0; })) {
        say("a handler ran");
    }
    return finish(rank);
}

// Whatever signals the program has a use for.
int own_handlers() {
    struct sigaction mine {};
    mine.sa_handler = [](int) { ++own_signals; };
    for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
        REQUIRE(sigaction(number, &mine, nullptr) == 0);
    }
    const int result = places();
    say("%d signals of its own", own_signals.load());
    return result;
}

int threads_here() {
    int count = 0;
    DIR* const tasks = opendir("/proc/self/task");
    while (const dirent* entry = readdir(tasks)) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    closedir(tasks);
    return count;
}

// A child that does not use NCCL is left alone; one that does is sampled by itself.
int forked() {
    Rank rank;
    start(rank);
    const pid_t child = fork();
    if (child == 0) {
        spinning(300);
        say("%d thread in the child, %d waits ended early", threads_here(), waiting(3));
        _exit(0);
    }
    REQUIRE(waitpid(child, nullptr, 0) == child);
    const pid_t user = fork();
    if (user == 0) {
        setenv("RANK", "1", 1);
        ncclUniqueId id;
        NCCL(ncclGetUniqueId(&id));
        spin_until_go();
        _exit(0);
    }
    spin_until_go();
    REQUIRE(waitpid(user, nullptr, 0) == user);
    return finish(rank);
}

// Runs and waits by turns of a millisecond, as a thread that feeds a GPU may.
int alternating() {
    Rank rank;
    start(rank);
    int ended = 0;
    int waits = 0;
    const uint64_t end_ns =
        now_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(client::number("WAIT_MS", 1500)) * 1'000'000;
    for (; now_ns(CLOCK_MONOTONIC) < end_ns; ++waits) {
        spinning(1);
        ended += poll(nullptr, 0, 1) == -1 ? 1 : 0;
    }
    say("%d of %d waits ended early", ended, waits);
    return finish(rank);
}

A_FRAME void deep(int depth, std::vector<uint64_t>& gaps) {
    volatile char frame[1024];
    frame[0] = static_cast<char>(depth);
    if (depth > 0) {
        deep(depth - 1, gaps);
        frame[1] = frame[0];
        return;
    }
    // Of the thread's own processor time, which others on the machine do not change.
    const uint64_t end_ns =
        now_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(client::number("WAIT_MS", 1500)) * 1'000'000;
    uint64_t before_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    while (now_ns(CLOCK_MONOTONIC) < end_ns) {
        const uint64_t then_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        gaps.push_back(then_ns - before_ns);
        before_ns = then_ns;
        if (gaps.size() == gaps.capacity()) {
            std::nth_element(gaps.begin(), gaps.begin() + 4096, gaps.end(), std::greater<>());
            gaps.resize(4096);
            before_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
        }
    }
}

// How long the thread was held: the longest gaps of its own time, in ns.
int gaps() {
    Rank rank;
    start(rank);
    std::vector<uint64_t> gaps;
    gaps.reserve(1 << 20);
    deep(client::number("DEPTH", 30), gaps);
    std::sort(gaps.begin(), gaps.end(), std::greater<>());
    for (size_t i = 0; i < std::min<size_t>(gaps.size(), 200); ++i) {
        say("%lu", gaps[i]);
    }
    say("done");
    client::await("go");
    return finish(rank);
}

constexpr client::Scenario kScenarios[] = {{"places", places},
                                           {"own-handlers", own_handlers},
                                           {"forked", forked},
                                           {"alternating", alternating},
                                           {"gaps", gaps}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

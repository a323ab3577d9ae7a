// A rank whose threads fork, execute, spawn, load and unload libraries, start threads and get signals, all at once and
// while dumps are made. Prints what it did, the same with and without the preload, and ends with 42.
//   STORM_ROUNDS: of each thread; STORM_SEED: of their order
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "titantrace.h"

using client::say;

extern char** environ;

namespace {

constexpr int kThreads = 3;
constexpr auto kDumpEveryUs = 20'000;

std::atomic<int> children{0}, lost{0}, signals{0};
std::atomic<bool> over{false};
std::string library;

void expect_end(pid_t child, int wanted) {
    int status = -1;
    const bool waited = child > 0 && waitpid(child, &status, 0) == child;
    const int got = !waited ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ++children;
    lost += got != wanted;
}

const char* kShell[] = {"/bin/sh", "-c", "exit 5", nullptr};

void fork_and_leave() {
    const pid_t child = fork();
    if (child == 0) {
        _exit(7);
    }
    expect_end(child, 7);
}

// As PyTorch's loader workers begin: handlers of their own, then the end by one of them.
void fork_and_handle() {
    const pid_t child = fork();
    if (child == 0) {
        struct sigaction action {};
        action.sa_handler = [](int) { _exit(8); };
        for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGUSR1, SIGTERM}) {
            sigaction(number, &action, nullptr);
        }
        raise(SIGBUS);
        _exit(1);
    }
    expect_end(child, 8);
}

void fork_and_execute() {
    const pid_t child = fork();
    if (child == 0) {
        execve(kShell[0], const_cast<char**>(kShell), environ);
        _exit(1);
    }
    expect_end(child, 5);
}

void fork_and_kill() {
    const pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(1);
    }
    kill(child, SIGKILL);
    expect_end(child, 128 + SIGKILL);
}

void vfork_and_leave() {
    const pid_t child = vfork();
    if (child == 0) {
        _exit(9);
    }
    expect_end(child, 9);
}

void spawn() {
    pid_t child = -1;
    posix_spawn(&child, kShell[0], nullptr, nullptr, const_cast<char**>(kShell), environ);
    expect_end(child, 5);
}

void load_and_unload() {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto twice = handle ? reinterpret_cast<int (*)(int)>(dlsym(handle, "storm_twice")) : nullptr;
    lost += !twice || twice(21) != 42;
    lost += dlsym(handle, "missing") != nullptr || dlerror() == nullptr;
    dlclose(handle);
}

void thread_that_ends() {
    pthread_t thread;
    REQUIRE(pthread_create(
                &thread, nullptr,
                [](void*) -> void* {
                    titan_event("thread");
                    cudaStream_t stream = nullptr;
                    CUDA(cudaStreamCreate(&stream));
                    CUDA(cudaStreamSynchronize(stream));
                    CUDA(cudaStreamDestroy(stream));
                    pthread_exit(nullptr);
                },
                nullptr) == 0);
    pthread_join(thread, nullptr);
}

void change_and_raise() {
    struct sigaction action {};
    action.sa_handler = [](int) { signals++; };
    action.sa_flags = SA_RESTART;
    // Often enough that some fork meets it in the middle, and with signals that the tracer handles, too.
    for (int i = 0; i < 50; ++i) {
        sigaction(SIGFPE, &action, nullptr);
        sigaction(SIGUSR1, &action, nullptr);
    }
    sigaction(SIGUSR2, &action, nullptr);
    raise(SIGUSR1);
    raise(SIGUSR2);
}

constexpr std::array kActions = {fork_and_leave, fork_and_handle, fork_and_execute, fork_and_kill,   vfork_and_leave,
                                 spawn,          load_and_unload, thread_that_ends, change_and_raise};

void rounds(unsigned seed, int count) {
    std::mt19937 random(seed);
    auto actions = kActions;
    for (int round = 0; round < count; ++round) {
        std::shuffle(actions.begin(), actions.end(), random);
        for (const auto act : actions) {
            act();
        }
    }
}

}  // namespace

int main(int, char** argv) {
    library = argv[1];
    client::Rank rank;
    rank.join();
    const auto seed = static_cast<unsigned>(client::number("STORM_SEED", 1));
    const int count = client::number("STORM_ROUNDS", 10);
    std::thread dumps([] {
        while (!over) {
            titan_dump("storm");
            usleep(kDumpEveryUs);
        }
    });
    std::thread work([&] {
        while (!over) {
            rank.reduce_and_sync();
        }
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(rounds, seed + static_cast<unsigned>(i), count);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    over = true;
    dumps.join();
    work.join();
    rank.leave();
    say("%d children, %d not as they should be, %d signals", children.load(), lost.load(), signals.load());
    return 42;
}

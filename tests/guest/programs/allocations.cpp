// A program that allocates and frees in many threads, across threads and forks, while it uses CUDA and NCCL.
#include <malloc.h>
#include <sys/wait.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "client.h"

using client::say;

namespace {

std::atomic<bool> stop{false};
std::mutex lock;
std::deque<std::vector<char>> handed_over;
std::atomic<size_t> wrong{0};

// Each block is filled with its size, checked, and often freed by another thread than its maker.
void allocate_and_free(unsigned seed) {
    while (!stop) {
        seed = seed * 1103515245 + 12345;
        const size_t bytes = 1 + (seed >> 8) % (seed % 64 == 0 ? 3'000'000 : 3'000);
        std::vector<char> block(bytes, static_cast<char>(bytes));
        const std::lock_guard held(lock);
        handed_over.push_back(std::move(block));
        if (handed_over.size() > 200) {
            const std::vector<char>& oldest = handed_over.front();
            wrong += oldest.front() != static_cast<char>(oldest.size()) || oldest.back() != oldest.front();
            handed_over.pop_front();
        }
    }
}

int work() {
    client::Rank r;
    r.join();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; ++i) {
        threads.emplace_back(allocate_and_free, i + 1);
    }
    for (int i = 0; i < 50; ++i) {
        r.reduce_and_sync();
    }
    const pid_t child = fork();
    if (child == 0) {
        std::vector<std::string> of_child(1000, std::string(1000, 'c'));
        _exit(of_child.back().back() == 'c' ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("child ended with %d", status);
    say("ready");
    client::await("go");
    for (int i = 0; i < 50; ++i) {
        r.reduce_and_sync();
    }
    stop = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    r.leave();
    say("%zu wrong blocks", wrong.load());
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"work", work}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

// Built with a sanitizer: programs that are sound, and programs with one of the errors that sanitizers find.
#include <csignal>
#include <thread>
#include <vector>

#include "client.h"

using client::say;

namespace {

volatile int sink = 0;

int with(void (*error)()) {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    std::thread waits([] { client::await("go"); });
    say("ready");
    client::await("go");
    waits.join();
    error();
    r.reduce_and_sync();
    r.leave();
    say("finished");
    return 0;
}

int sound() {
    return with([] {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back([] { std::vector<int> numbers(1000, 1); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    });
}

int leak() {
    return with([] { sink = *new volatile int[10]{}; });
}

int use_after_free() {
    return with([] {
        volatile int* volatile hidden = new int(7);
        delete hidden;
        sink = *hidden;
    });
}

int null_pointer() {
    return with([] {
        volatile int* nowhere = nullptr;
        sink = *nowhere;
    });
}

int overflow() {  // of a signed number
    return with([] {
        volatile int most = 0x7fffffff;
        sink = most + 1;
    });
}

int race() {
    return with([] {
        static int shared = 0;
        std::thread one([] { ++shared; }), two([] { ++shared; });
        one.join();
        two.join();
        sink = shared;
    });
}

int aborts() {
    return with([] { std::abort(); });
}

constexpr client::Scenario kScenarios[] = {
    {"sound", sound},       {"leak", leak},         {"use_after_free", use_after_free},
    {"null", null_pointer}, {"overflow", overflow}, {"race", race},
    {"abort", aborts}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

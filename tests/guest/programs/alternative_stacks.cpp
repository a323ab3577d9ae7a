// Alternative signal stacks that no handler of the program ever uses: too small for one, or gone, and small stacks of
// the program's own.
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <thread>
#include <vector>

#include "client.h"

using client::say;

namespace {

std::atomic<bool> over{false};

// Work that is never in the kernel: such a thread has to be interrupted to be seen.
[[gnu::noinline]] void work() {
    volatile unsigned turns = 0;
    while (!over) {
        turns = turns + 1;
    }
}

template <typename Body>
int beside(Body body) {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    std::atomic<bool> begun{false};
    bool fine = false;
    std::thread thread([&] { fine = body(begun); });
    while (!begun) {
        usleep(1000);
    }
    say("ready");
    client::await("go");
    over = true;
    thread.join();
    say(fine ? "nothing changed" : "the program's memory has changed");
    r.leave();
    return 0;
}

char* map(size_t bytes, void* where = nullptr) {
    const int fixed = where == nullptr ? 0 : MAP_FIXED;
    void* const mapped = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    return static_cast<char*>(mapped);
}

void use_as_alternative(char* memory, size_t bytes) {
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = bytes;
    REQUIRE(sigaltstack(&stack, nullptr) == 0);
}

// As old headers say is enough (MINSIGSTKSZ), which it is not on processors with wide registers; unreadable below.
int in_small(bool waits) {
    constexpr size_t kPage = 4096, kOldMinimum = 2048;
    return beside([waits](std::atomic<bool>& begun) {
        char* const memory = map(2 * kPage);
        REQUIRE(mprotect(memory, kPage, PROT_NONE) == 0);
        stack_t stack{};
        stack.ss_sp = memory + kPage;
        stack.ss_size = kOldMinimum;
        if (sigaltstack(&stack, nullptr) != 0) {
            say("the kernel refuses small ones");  // since 5.14, on processors where it would not hold the registers
        }
        begun = true;
        waits ? client::await("go") : work();
        return true;
    });
}

// Given back, and in use for something else, while the kernel still has its address.
int in_freed() {
    return beside([](std::atomic<bool>& begun) {
        constexpr size_t kBytes = 64 << 10;
        char* const memory = map(kBytes);
        use_as_alternative(memory, kBytes);
        munmap(memory, kBytes);
        map(kBytes, memory);
        memset(memory, 0x5a, kBytes);
        begun = true;
        work();
        bool same = true;
        for (size_t i = 0; i < kBytes; ++i) {
            same = same && memory[i] == 0x5a;
        }
        return same;
    });
}

std::atomic<bool>* coroutine_begun = nullptr;
[[gnu::noinline]] void coroutine() {
    *coroutine_begun = true;
    work();
}

// Coroutines of 8 KiB, in memory that the program uses on both sides.
int in_coroutine() {
    return beside([](std::atomic<bool>& begun) {
        constexpr size_t kBytes = 8 << 10;
        std::vector<char> memory(3 * kBytes, 0x5a);
        static ucontext_t outer, inner;
        getcontext(&inner);
        inner.uc_stack.ss_sp = memory.data() + kBytes;
        inner.uc_stack.ss_size = kBytes;
        inner.uc_link = &outer;
        coroutine_begun = &begun;
        makecontext(&inner, coroutine, 0);
        swapcontext(&outer, &inner);
        bool same = true;
        for (size_t i = 0; i < kBytes; ++i) {
            same = same && memory[i] == 0x5a && memory[2 * kBytes + i] == 0x5a;
        }
        return same;
    });
}

constexpr client::Scenario kScenarios[] = {{"small", [] { return in_small(false); }},
                                           {"small-waits", [] { return in_small(true); }},
                                           {"freed", in_freed},
                                           {"coroutine", in_coroutine}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

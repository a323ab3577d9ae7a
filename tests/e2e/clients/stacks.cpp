// Programs whose threads stand in places that the test knows by name when they are dumped.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "titantrace.h"

using client::Rank;
using client::say;

// Not inlined, and not left by a jump: each is a frame.
#define A_FRAME __attribute__((noinline, noclone))

namespace {

std::atomic<int> ready{0};
std::atomic<bool> over{false};

// --- where threads stand ---------------------------------------------------------------------------------------------

A_FRAME int asleep(int depth) {
    if (depth > 0) {
        const volatile int below = asleep(depth - 1);
        return below + 1;
    }
    ++ready;
    while (!over) {
        usleep(200'000);  // 2,000 such threads must not be what keeps a small machine busy
    }
    return 0;
}

[[gnu::always_inline]] inline int put_into_its_caller() {
    ++ready;
    while (!over) {
        usleep(10'000);  // the line inside
    }
    return 1;
}

A_FRAME int around_an_inlined_function() {
    const volatile int inside = put_into_its_caller();  // the line around it
    return inside + 1;
}

A_FRAME int spinning() {
    ++ready;
    volatile int turns = 0;
    while (!over) {
        turns = turns + 1;
    }
    return turns;
}

A_FRAME int in_the_heap() {
    ++ready;
    int sum = 0;
    while (!over) {
        std::vector<std::string> texts(200, std::string(100, 'x'));
        sum += static_cast<int>(texts.back().size());
    }
    return sum;
}

A_FRAME int in_the_linker() {
    ++ready;
    int opened = 0;
    while (!over) {
        void* const handle = dlopen("libm.so.6", RTLD_NOW);
        opened += handle != nullptr ? 1 : 0;
        dlclose(handle);
    }
    return opened;
}

// Functions that are found by their frame pointers, around a wait that no signal may end: nobody has saved that
// register.
#define WITH_FRAME_POINTER A_FRAME __attribute__((optimize("no-omit-frame-pointer")))
WITH_FRAME_POINTER int polls(size_t bytes) {
    char* const memory = static_cast<char*>(__builtin_alloca(bytes));
    memory[0] = 0;
    ++ready;
    while (!over) {
        poll(nullptr, 0, 10);
    }
    return memory[0];
}
WITH_FRAME_POINTER int calls_polls(size_t bytes) {
    const volatile int below = polls(bytes);
    return below + 1;
}
WITH_FRAME_POINTER int calls_through_pointer() {
    int (*volatile function)(size_t) = polls;
    return function(16) + 1;
}
WITH_FRAME_POINTER int polls_realigned() {
    alignas(64) volatile char wide[64] = {};
    ++ready;
    while (!over) {
        poll(nullptr, 0, 10);
    }
    return wide[1];
}
WITH_FRAME_POINTER int calls_realigned() {
    const volatile int below = polls_realigned();
    return below + 1;
}

A_FRAME int throws(int depth) {
    if (depth == 0) {
        throw std::runtime_error("for the unwinder");
    }
    return throws(depth - 1) + 1;
}

A_FRAME int in_the_unwinder() {
    ++ready;
    int caught = 0;
    while (!over) {
        try {
            throws(20);
        } catch (const std::runtime_error&) {
            ++caught;
        }
    }
    return caught;
}

void block_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

A_FRAME int deaf_and_waiting() {
    block_signals();
    const volatile int result = asleep(0);
    return result;
}

A_FRAME int deaf_and_spinning() {
    block_signals();
    pthread_setname_np(pthread_self(), "deaf");
    return spinning();
}

// Code without unwind tables and of no file, as a JIT makes it.
A_FRAME int in_generated_code() {
    using Function = int (*)(int (*)(int), int);
    // push rbp; mov rbp, rsp; mov rax, rdi; mov edi, esi; call rax; pop rbp; ret
    static constexpr unsigned char kCode[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                              0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(page, kCode, sizeof(kCode));
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    return reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(page))(asleep, 0) + 1;
}

// Uninterruptible, as far as signals go: a parent waits for its vfork child so.
A_FRAME int waiting_for_a_child() {
    const pid_t child = vfork();
    if (child == 0) {
        ++ready;
        while (!over) {
            usleep(10'000);
        }
        _exit(0);
    }
    return child > 0 ? 1 : 0;
}

int start_and_dump(const std::vector<int (*)()>& bodies, int dumps = 1) {
    Rank r;
    r.join();
    r.reduce_and_sync();
    std::vector<std::thread> threads;
    for (int (*body)() : bodies) {
        threads.emplace_back(body);
    }
    while (ready < static_cast<int>(bodies.size())) {
        usleep(1000);
    }
    for (int i = 0; i < dumps; ++i) {
        REQUIRE(titan_dump("for the test") == 0);
    }
    over = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    r.reduce_and_sync();
    say("done");
    r.leave();
    return 0;
}

// --- scenarios -------------------------------------------------------------------------------------------------------

int kinds() {
    return start_and_dump({[] { return asleep(20); }, spinning, in_the_heap, in_the_linker, deaf_and_waiting,
                           deaf_and_spinning, around_an_inlined_function});
}

int uninterruptible() {
    return start_and_dump({waiting_for_a_child, [] { return asleep(1); }});
}

int generated() { return start_and_dump({in_generated_code}); }

int frame_pointers() {
    return start_and_dump(
        {[] { return calls_polls(16); }, [] { return calls_polls(20'000); }, calls_through_pointer, calls_realigned});
}

int many() {
    return start_and_dump(
        std::vector<int (*)()>(static_cast<size_t>(client::number("THREADS", 200)), [] { return asleep(10); }));
}

// Interrupted again and again in all the places that hold locks.
int busy() { return start_and_dump({in_the_heap, in_the_linker, in_the_unwinder, in_the_linker, spinning}, 20); }

// The program has a use for every real-time signal.
int no_signal_left() {
    for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) {
        struct sigaction mine {};
        mine.sa_handler = [](int) { _exit(77); };
        REQUIRE(sigaction(number, &mine, nullptr) == 0);
    }
    return start_and_dump({[] { return asleep(1); }, spinning});
}

// Waits that the kernel does not restart after a signal. Their thread tells whether one was cut short.
std::atomic<int> interrupted{0};
template <typename Wait>
int wait_a_second(Wait wait) {
    ++ready;
    interrupted += wait() == -1 && errno == EINTR ? 1 : 0;
    return 0;
}
int waits() {
    const int result = start_and_dump({[] { return wait_a_second([] { return poll(nullptr, 0, 1000); }); },
                                       [] {
                                           return wait_a_second([] {
                                               const timespec second{1, 0};
                                               return nanosleep(&second, nullptr);
                                           });
                                       }});
    say("%d interrupted", interrupted.load());
    return result;
}

constexpr client::Scenario kScenarios[] = {{"waits", waits},
                                           {"kinds", kinds},
                                           {"uninterruptible", uninterruptible},
                                           {"generated", generated},
                                           {"frame-pointers", frame_pointers},
                                           {"many", many},
                                           {"busy", busy},
                                           {"no-signal-left", no_signal_left}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

// The start of a session is cut off at each of its system calls, and the process must work as before: no later call
// waits for a start that nobody will finish.
#include <doctest/doctest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "base/clock.h"
#include "nightly.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::Scratch;

#if defined(__x86_64__)

namespace {

// kForcedJump and kForcedExit come from nowhere, whatever the thread has blocked. The others are what a program can do.
enum class Cut { kNone, kForcedJump, kForcedExit, kSignal, kCancel };

constexpr uint64_t kAtOnceNs = 1'500'000'000;  // a start that is waited for in vain costs 2 s

enum Outcome { kGood = 0, kSlow = 1, kNotRecording = 2, kMayNotTrace = 77 };

// Shared with the process that is cut.
struct Board {
    std::atomic<bool> cancel_asked, cancelled, start_over;
};

sigjmp_buf way_out;
[[noreturn]] void jump_out() { siglongjmp(way_out, 1); }
[[noreturn]] void exit_thread() {
    for (;;) {
        syscall(SYS_exit, 0);
    }
}

Board* board;
bool may_trace = true;

// The thread that starts the session, traced from its stop to `start_over`.
void* start_and_be_cut(void*) {
    if (sigsetjmp(way_out, 1) == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            may_trace = false;
            return nullptr;
        }
        syscall(SYS_tgkill, getpid(), gettid(), SIGSTOP);
        start_session();
        board->start_over = true;
        pthread_testcancel();
    }
    start_session();
    return nullptr;
}

// libc loads a library for the first of all, and the thread that is stopped may hold the loader's lock.
void cancel_once() {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
            for (;;) {
                pause();
            }
        },
        nullptr);
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
}

int process_to_cut(Cut cut) {
    cancel_once();
    struct sigaction action {};
    action.sa_handler = [](int) { jump_out(); };
    sigaction(SIGUSR2, &action, nullptr);
    pthread_t thread;
    pthread_create(&thread, nullptr, start_and_be_cut, nullptr);
    while (cut == Cut::kCancel && !board->cancelled) {
        if (board->cancel_asked) {
            pthread_cancel(thread);
            board->cancelled = true;
        }
        usleep(1000);
    }
    pthread_join(thread, nullptr);
    if (!may_trace) {
        return kMayNotTrace;
    }
    const uint64_t before_ns = monotonic_now_ns();
    const Session* const started = start_session();
    if (monotonic_now_ns() - before_ns > kAtOnceNs) {
        return kSlow;
    }
    const bool was_forced = cut == Cut::kForcedJump || cut == Cut::kForcedExit;
    const bool is_running = started != nullptr && fork_page.load()->phase.load() == Phase::kRunning;
    return was_forced || is_running ? kGood : kNotRecording;
}

void divert(pid_t thread, void (*to)()) {
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
    registers.orig_rax = ~0ull;  // no system call
    registers.rip = reinterpret_cast<unsigned long long>(to);
    registers.rsp = ((registers.rsp - 512) & ~15ull) - 8;
    ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
}

void cut_here(pid_t process, pid_t thread, Cut cut) {
    switch (cut) {
        case Cut::kForcedJump: divert(thread, jump_out); break;
        case Cut::kForcedExit: divert(thread, exit_thread); break;
        case Cut::kSignal: syscall(SYS_tgkill, process, thread, SIGUSR2); break;
        case Cut::kCancel:
            board->cancel_asked = true;
            while (!board->cancelled) {
                usleep(100);
            }
            break;
        case Cut::kNone: break;
    }
}

struct Result {
    int status;
    int calls;  // system calls that were seen
};

// Cuts at system call number `at` of the start.
Result run(Cut cut, int at) {
    Scratch scratch;
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board = new (memory) Board{};
    test::Environment environment = test::rank_environment(scratch, 0);
    for (const char* const ring : {"COLLECTIVES", "CUDA_CALLS", "LAUNCHES", "MARKERS"}) {
        environment[std::string("TITANTRACE_") + ring] = "64";  // a small file is made sooner
    }
    const pid_t process = test::start_child(environment, [&] { return process_to_cut(cut); });
    int status = 0;
    const pid_t thread = waitpid(-1, &status, __WALL);
    int calls = 0;
    ptrace(PTRACE_SETOPTIONS, thread, nullptr, PTRACE_O_TRACESYSGOOD);
    for (bool entering = true; WIFSTOPPED(status) && !board->start_over;) {
        ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
        waitpid(thread, &status, __WALL);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            continue;
        }
        if (entering && !board->start_over && ++calls == at) {
            cut_here(process, thread, cut);
            break;
        }
        entering = !entering;
    }
    board->cancel_asked = true;
    ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
    const int ended = WIFSTOPPED(status) ? test::wait_child(process) : WEXITSTATUS(status);
    munmap(memory, sizeof(Board));
    return {ended, calls};
}

// At every `stride`th system call, so that all kinds together cut at each; where not all of it is tested, at a sixth of
// these.
void cut_everywhere(Cut cut, int first, int stride) {
    const Result whole = run(Cut::kNone, 0);
    if (whole.status == kMayNotTrace) {
        printf("skipped: this system lets no process trace its child\n");
        return;
    }
    REQUIRE(whole.status == kGood);
    REQUIRE(whole.calls > 50);
    const int step = test::rounds(6, 1) * stride;
    for (int at = first; at < whole.calls; at += step) {
        CAPTURE(at);
        CHECK(run(cut, at).status == kGood);
    }
}

}  // namespace

TEST_CASE("a start left by force at any system call makes nobody wait") { cut_everywhere(Cut::kForcedJump, 1, 2); }

TEST_CASE("a start whose thread vanishes at any system call makes nobody wait") {
    cut_everywhere(Cut::kForcedExit, 2, 2);
}

TEST_CASE("a signal handler that leaves by longjmp at any system call of the start leaves a session") {
    cut_everywhere(Cut::kSignal, 1, 3);
}

TEST_CASE("a thread that is cancelled at any system call of the start leaves a session") {
    cut_everywhere(Cut::kCancel, 2, 3);
}

#else

TEST_CASE("a start that is cut off") { printf("skipped: written for the registers of x86-64\n"); }

#endif

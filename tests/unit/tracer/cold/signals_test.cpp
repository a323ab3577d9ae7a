#include <doctest/doctest.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/signals.h"
#include "scratch.h"
#include "session.h"
#include "signals.h"
#include "start_session.h"
#include "watch.h"

using namespace titan::tracer;
using titan::test::eventually;
using titan::test::has;
using titan::test::rank_environment;
using titan::test::read_dump;
using titan::test::run_child;
using titan::test::Scratch;

namespace {

volatile sig_atomic_t calls = 0;
volatile sig_atomic_t code_seen = 0;
volatile sig_atomic_t mask_good = 0;
volatile void* context_seen = nullptr;

void plain_handler(int) {
    calls = calls + 1;
    errno = EINVAL;
}

void info_handler(int, siginfo_t* info, void* context) {
    calls = calls + 1;
    code_seen = info->si_code;
    context_seen = context;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    mask_good = sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGUSR1) == 1;
}

struct sigaction action_of(void (*handler)(int, siginfo_t*, void*), int flags) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigaddset(&action.sa_mask, SIGUSR2);
    return action;
}

// ThreadSanitizer's raise puts errno back.
#if defined(__SANITIZE_THREAD__)
constexpr int kErrnoAfterRaise = 7;
#else
constexpr int kErrnoAfterRaise = EINVAL;
#endif

bool dumped(const Scratch& scratch, size_t count) {
    return eventually([&] { return scratch.dump_names().size() == count; });
}

int crash_by_write() {
    // Not the null pointer: the sanitizers look for that one themselves.
    void* closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile int*>(closed) = 1;
    return 0;
}

}  // namespace

TEST_CASE("the signal dumps, and without a handler of the program ends nothing") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              errno = 99;
              raise(SIGUSR1);
              return errno == 99 && dumped(scratch, 1) ? 0 : 1;
          }) == 0);
    CHECK(has(read_dump(scratch.dump_path("rank00000.0.titan")).meta,
              "\"reason\":\"signal\",\"detail\":\"SIGUSR1 from pid "));
}

TEST_CASE("a handler from before the session is chained; what the program reads back is its own") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              auto action = action_of(info_handler, SA_RESTART);
              sigaction(SIGUSR1, &action, nullptr);
              start_session();
              struct sigaction old {};
              sigaction(SIGUSR1, nullptr, &old);
              if (old.sa_sigaction != info_handler || (old.sa_flags & SA_RESTART) == 0) {
                  return 1;
              }
              raise(SIGUSR1);
              return calls == 1 && code_seen == SI_TKILL && context_seen != nullptr && mask_good == 1 &&
                             dumped(scratch, 1)
                         ? 0
                         : 2;
          }) == 0);
}

TEST_CASE("an action that the program reads back is complete: also what libc adds to it") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              const auto action = action_of(info_handler, SA_RESTART);
              struct sigaction untouched {};
              struct sigaction ours {};
              sigaction(SIGWINCH, &action, nullptr);
              sigaction(SIGWINCH, nullptr, &untouched);
              sigaction(SIGUSR1, &action, nullptr);
              sigaction(SIGUSR1, nullptr, &ours);
              return ours.sa_flags == untouched.sa_flags && ours.sa_restorer == untouched.sa_restorer ? 0 : 1;
          }) == 0);
}

TEST_CASE("a handler from after the session is chained, by whatever function it came") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              if (signal(SIGUSR1, plain_handler) != SIG_DFL) {
                  return 1;
              }
              errno = 7;
              raise(SIGUSR1);
              if (calls != 1 || errno != kErrnoAfterRaise) {  // as its handler left it
                  return 2;
              }
              // System V: the first signal also takes the handler away.
              if (sysv_signal(SIGUSR1, plain_handler) != plain_handler) {
                  return 3;
              }
              raise(SIGUSR1);
              raise(SIGUSR1);
              struct sigaction old {};
              sigaction(SIGUSR1, nullptr, &old);
              if (calls != 2 || old.sa_handler != SIG_DFL) {
                  return 4;
              }
              if (signal(SIGUSR1, SIG_IGN) != SIG_DFL || signal(SIGUSR1, SIG_DFL) != SIG_IGN) {
                  return 5;
              }
              // Signals in a row may share a dump.
              return signal(SIGUSR2, plain_handler) == SIG_DFL &&
                             eventually([&] { return !scratch.dump_names().empty(); })
                         ? 0
                         : 6;
          }) == 0);
}

TEST_CASE("an ignored signal stays ignored, before the kernel, too") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              signal(SIGUSR1, SIG_IGN);
              start_session();
              struct sigaction kernel {};
              __sigaction(SIGUSR1, nullptr, &kernel);
              if (kernel.sa_handler != SIG_IGN) {
                  return 1;
              }
              signal(SIGUSR1, plain_handler);
              raise(SIGUSR1);
              return calls == 1 && dumped(scratch, 1) ? 0 : 2;
          }) == 0);
}

TEST_CASE("a forked child is as if we were not there") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              pid_t child = fork();
              if (child == 0) {
                  raise(SIGUSR1);
                  _exit(0);
              }
              if (titan::test::wait_child(child) != 1000 + SIGUSR1) {
                  return 1;
              }
              child = fork();
              if (child == 0) {
                  signal(SIGUSR1, plain_handler);
                  raise(SIGUSR1);
                  crash_by_write();
              }
              if (titan::test::wait_child(child) != 1000 + SIGSEGV) {
                  return 2;
              }
              return scratch.dump_names().empty() ? 0 : 3;
          }) == 0);
}

TEST_CASE("a vfork child neither speaks for its parent nor changes its handlers") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              start_session();
              signal(SIGUSR1, plain_handler);
              pid_t child = vfork();
              if (child == 0) {
                  signal(SIGUSR1, SIG_DFL);
                  on_process_exit(-1);
                  _exit(0);
              }
              titan::test::wait_child(child);
              raise(SIGUSR1);
              return calls == 1 && dumped(scratch, 1) &&
                             session()->ring_file.header->state == titan::format::ProcessState::kRunning
                         ? 0
                         : 1;
          }) == 0);
}

TEST_CASE("a crash: dumped, then death by the same signal") {
    Scratch scratch;
    std::string expected;
    int status = 0;
    auto environment = rank_environment(scratch, 0);
    SUBCASE("a fault") {
        status = run_child(environment, [] { return start_session() == nullptr ? 1 : crash_by_write(); });
        CHECK(status == 1000 + SIGSEGV);
        expected = "SIGSEGV in thread ";
    }
    SUBCASE("abort") {
        status = run_child(environment, [] {
            start_session();
            abort();
            return 0;
        });
        CHECK(status == 1000 + SIGABRT);
        expected = "SIGABRT in thread ";
    }
    SUBCASE("abort, with a handler that returns") {
        status = run_child(environment, [] {
            start_session();
            signal(SIGABRT, plain_handler);
            abort();
            return 0;
        });
        CHECK(status == 1000 + SIGABRT);
        expected = "SIGABRT in thread ";
    }
    SUBCASE("killed by a fatal signal from outside") {
        status = run_child(environment, [] {
            start_session();
            kill(getpid(), SIGBUS);
            usleep(5'000'000);
            return 0;
        });
        CHECK(status == 1000 + SIGBUS);
        expected = "SIGBUS in thread ";
    }
    SUBCASE("a reporting handler that puts the default back and raises again, as faulthandler does") {
        status = run_child(environment, [] {
            start_session();
            struct sigaction action {};
            action.sa_flags = SA_NODEFER;
            action.sa_handler = [](int number) {
                signal(number, SIG_DFL);
                raise(number);
            };
            sigaction(SIGSEGV, &action, nullptr);
            return crash_by_write();
        });
        CHECK(status == 1000 + SIGSEGV);
        expected = "SIGSEGV in thread ";
    }
    SUBCASE("a handler that crashes itself") {
        status = run_child(environment, [] {
            start_session();
            struct sigaction action {};
            action.sa_flags = static_cast<int>(SA_NODEFER | SA_RESETHAND);
            action.sa_handler = [](int) { crash_by_write(); };
            sigaction(SIGSEGV, &action, nullptr);
            return crash_by_write();
        });
        CHECK(status == 1000 + SIGSEGV);
        expected = "SIGSEGV in thread ";
    }
    SUBCASE("a handler that ends the process") {
        status = run_child(environment, [] {
            start_session();
            signal(SIGSEGV, [](int) {
                on_process_exit(-1);  // what the wrapper of _exit calls
                _exit(7);
            });
            return crash_by_write();
        });
        CHECK(status == 7);
        expected = "SIGSEGV in thread ";
    }
    REQUIRE(scratch.dump_names().size() == 1);
    auto dump = read_dump(scratch.dump_path("rank00000.0.titan"));
    CHECK(has(dump.meta, "\"reason\":\"crash\",\"detail\":\"" + expected));
    const auto& header = *reinterpret_cast<const titan::format::RingHeader*>(dump.ring.data());
    CHECK(header.state == titan::format::ProcessState::kCrashed);
    CHECK(header.fatal_signal != 0);
}

TEST_CASE("a fault that the program's handler repairs is no crash") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              static char* page;
              page = static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
              start_session();
              signal(SIGSEGV, [](int) { mprotect(page, 4096, PROT_READ | PROT_WRITE); });
              page[0] = 1;
              usleep(300'000);
              return page[0] == 1 && scratch.dump_names().empty() ? 0 : 1;
          }) == 0);
}

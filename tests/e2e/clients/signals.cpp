// Programs with signal handlers of their own, and programs that crash.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "client.h"

using client::Rank;
using client::say;

namespace {

volatile sig_atomic_t calls = 0;

void count(int) { calls = calls + 1; }
void count_with_info(int, siginfo_t* info, void*) { calls = calls + (info->si_pid > 0 ? 1 : 100); }

void handle_with_sigaction() {
    struct sigaction action {};
    action.sa_sigaction = count_with_info;
    action.sa_flags = SA_SIGINFO;
    REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
}
void handle_with_signal() { REQUIRE(signal(SIGUSR1, count) != SIG_ERR); }
void ignore() { REQUIRE(signal(SIGUSR1, SIG_IGN) != SIG_ERR); }
void leave_alone() {}

template <typename Install>
int install_then(Install install, bool before) {
    if (before) {
        install();
    }
    Rank r;
    r.join();
    r.reduce_and_sync();
    if (!before) {
        install();
    }
    say("ready");
    client::await("go");
    r.reduce_and_sync();
    say("handled %d", static_cast<int>(calls));
    return 0;
}

int action_before() { return install_then(handle_with_sigaction, true); }
int signal_before() { return install_then(handle_with_signal, true); }
int signal_after() { return install_then(handle_with_signal, false); }
int ignore_after() { return install_then(ignore, false); }
int plain() { return install_then(leave_alone, true); }

// What the program set is what it reads back.
int reads_back() {
    Rank r;
    r.join();
    struct sigaction old {};
    REQUIRE(sigaction(SIGUSR1, nullptr, &old) == 0);
    say("first %s", old.sa_handler == SIG_DFL ? "default" : "other");
    handle_with_signal();
    REQUIRE(sigaction(SIGUSR1, nullptr, &old) == 0);
    say("then %s", old.sa_handler == count ? "mine" : "other");
    say("and %s", signal(SIGSEGV, SIG_DFL) == SIG_DFL ? "default" : "other");
    return 0;
}

template <typename End>
int crash(End end) {
    Rank r;
    r.join();
    r.reduce_and_sync();
    say("crashing");
    end();
    return 0;
}

void segfault() { *static_cast<volatile int*>(nullptr) = 1; }

volatile bool endless = true;

int recurse(volatile char* above) {
    volatile char here[4096];
    here[0] = above ? above[0] : 1;
    return endless ? recurse(here) + here[0] : 0;
}

void tell_and_die(int number) {
    static const char text[] = "own handler\n";
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text, sizeof(text) - 1);
    signal(number, SIG_DFL);
    raise(number);
}

int plain_segfault() { return crash(segfault); }
int stack_overflow() {
    return crash([] { say("%d", recurse(nullptr)); });
}
int handled_segfault() {
    signal(SIGSEGV, tell_and_die);
    return crash(segfault);
}
int raised() {
    return crash([] { raise(SIGFPE); });
}
int segfault_on_thread() {
    return crash([] { std::thread(segfault).join(); });
}
// What the program ignores stays ignored in what it executes.
int ignored_over_exec() {
    ignore();
    Rank r;
    r.join();
    r.reduce_and_sync();
    const pid_t child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", "kill -USR1 $$; echo survived", nullptr);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("child ended with %d", status);
    return 0;
}

// A child that is forked while another thread changes a signal's action can change it itself.
int fork_among_changes() {
    static std::atomic<bool> over{false};
    Rank r;
    r.join();
    r.reduce_and_sync();
    std::thread changes([] {
        while (!over) {
            signal(SIGUSR1, count);
        }
    });
    for (int i = 0; i < 300; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(3);
            signal(SIGUSR1, SIG_DFL);
            _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    }
    over = true;
    changes.join();
    say("300 children ended");
    return 0;
}

// The dump signal as a wake-up: 140 times a second.
int wake_ups() {
    handle_with_signal();
    Rank r;
    r.join();
    r.reduce_and_sync();
    for (int i = 0; i < 420; ++i) {
        kill(getpid(), SIGUSR1);
        usleep(7000);
    }
    r.reduce_and_sync();
    say("handled %d", static_cast<int>(calls));
    return 0;
}

constexpr client::Scenario kScenarios[] = {{"sigaction-before", action_before},
                                           {"signal-before", signal_before},
                                           {"signal-after", signal_after},
                                           {"ignored-after", ignore_after},
                                           {"plain", plain},
                                           {"reads-back", reads_back},
                                           {"segfault", plain_segfault},
                                           {"stack-overflow", stack_overflow},
                                           {"handled-segfault", handled_segfault},
                                           {"segfault-on-thread", segfault_on_thread},
                                           {"raised", raised},
                                           {"ignored-over-exec", ignored_over_exec},
                                           {"fork-among-changes", fork_among_changes},
                                           {"wake-ups", wake_ups}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

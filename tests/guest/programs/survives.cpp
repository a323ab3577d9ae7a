// Programs that handle what kills others, live on, and end as they like.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "client.h"

using client::say;

namespace {

volatile sig_atomic_t calls = 0;
sigjmp_buf back;

void count(int) { calls = calls + 1; }

void handle(int number, void (*handler)(int), int flags = 0) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    REQUIRE(sigaction(number, &action, nullptr) == 0);
}

int* volatile nowhere = nullptr;

void recover_from_fault() {
    handle(SIGSEGV, [](int) { siglongjmp(back, 1); });
    if (sigsetjmp(back, 1) == 0) {
        *nowhere = 1;
    }
    say("recovered");
}

int raise_abort_twice() {
    handle(SIGABRT, count);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    raise(SIGABRT);
    say("handled %d", static_cast<int>(calls));
    raise(SIGABRT);
    say("handled %d", static_cast<int>(calls));
    r.leave();
    say("finished");
    return 0;
}

int raise_abort_then_fault() {
    handle(SIGABRT, count);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    raise(SIGABRT);
    recover_from_fault();
    r.leave();
    say("finished");
    return 0;
}

// Looks what memory may be read, as crash reporters and garbage collectors do; then ends, from a deeper frame than the
// look.
[[gnu::noinline]] int end_deeper() {
    volatile char room[40'000];
    room[0] = 0;
    std::fflush(stdout);
    _exit(room[0]);
}

int probe() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    recover_from_fault();
    r.leave();
    return end_deeper();
}

// Its handler has seen the abort, and cannot keep it.
int aborts() {
    handle(SIGABRT, [](int) {
        static const char text[] = "own handler\n";
        [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text, sizeof(text) - 1);
    });
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    abort();
}

// What handlers see of themselves, and what they leave behind.
volatile sig_atomic_t flags_inside = 0, handler_inside = 0;
void look(int number) {
    struct sigaction inside {};
    sigaction(number, nullptr, &inside);
    flags_inside = inside.sa_flags;
    handler_inside = inside.sa_handler == SIG_DFL ? 0 : inside.sa_handler == look ? 1 : 2;
    errno = EDOM;
}

int inside_handlers() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGTERM, SIGINT, SIGUSR2}) {
        for (const int flags :
             {0, static_cast<int>(SA_RESETHAND), static_cast<int>(SA_RESETHAND | SA_NODEFER), SA_RESTART}) {
            handle(number, look, flags);
            errno = 0;
            raise(number);
            constexpr int kTold = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_RESTART);
            say("signal %d flags %x: inside %x, handler %d, errno %d", number, static_cast<unsigned>(flags),
                static_cast<unsigned>(flags_inside & kTold), static_cast<int>(handler_inside), errno);
        }
    }
    r.leave();
    return 0;
}

// Which signals the process handles, as the system sees it.
int handled_signals() {
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    char line[256];
    FILE* const status = std::fopen("/proc/self/status", "r");
    while (std::fgets(line, sizeof(line), status) != nullptr) {
        if (std::strncmp(line, "SigCgt:", 7) == 0) {
            std::printf("%s", line);
        }
    }
    std::fclose(status);
    r.leave();
    return 0;
}

int ignored_abort() {
    signal(SIGABRT, SIG_IGN);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    raise(SIGABRT);
    kill(getpid(), SIGABRT);
    usleep(10'000);
    r.reduce_and_sync();
    r.leave();
    client::say("finished");
    return 0;
}

int ignored_and_aborts() {
    signal(SIGABRT, SIG_IGN);
    client::Rank r;
    r.join();
    r.reduce_and_sync();
    client::say("aborting");
    abort();
}

constexpr client::Scenario kScenarios[] = {{"raise-abort-twice", raise_abort_twice},
                                           {"ignored-abort", ignored_abort},
                                           {"ignored-and-aborts", ignored_and_aborts},
                                           {"raise-abort-then-fault", raise_abort_then_fault},
                                           {"probe", probe},
                                           {"aborts", aborts},
                                           {"inside-handlers", inside_handlers},
                                           {"handled-signals", handled_signals}};

}  // namespace

int main(int argc, char** argv) { return client::run(kScenarios, argc, argv); }

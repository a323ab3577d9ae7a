#include "program_actions.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "base/signals.h"
#include "log.h"
#include "session.h"

namespace titan::tracer {
namespace {

constexpr int kSignals = 65;

// The program's action: the copy that `version` points at. The other one is written first, so that a child forked
// meanwhile finds a whole one. A reader that meets a writer two versions ahead reads again; meanwhile its words are
// whole, at least.
constexpr size_t kActionWords = sizeof(struct sigaction) / sizeof(uint64_t);
static_assert(sizeof(struct sigaction) % sizeof(uint64_t) == 0);
struct Action {
    std::atomic<bool> owned;
    std::atomic<IfIgnored> if_ignored;
    std::atomic<uint32_t> version;
    std::atomic<uint64_t> program[2][kActionWords];
};
constinit Action actions[kSignals]{};
constinit SignalHandler our_handler = nullptr;

// All signals blocked, one writer at a time. The lock lies on the page that fork wipes: in the child nobody holds it.
class WriteLock {
  public:
    WriteLock() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
        while (word().exchange(1, std::memory_order_acquire) != 0) {
            sched_yield();
        }
    }
    ~WriteLock() {
        word().store(0, std::memory_order_release);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    WriteLock(const WriteLock&) = delete;
    WriteLock& operator=(const WriteLock&) = delete;

  private:
    static std::atomic<uint32_t>& word() { return fork_page.load(std::memory_order_acquire)->signal_lock; }

    sigset_t before_;
};

void store_action(int number, const struct sigaction& program) {
    Action& action = actions[number];
    const uint32_t next = action.version.load(std::memory_order_relaxed) + 1;
    uint64_t words[kActionWords];
    memcpy(words, &program, sizeof(program));
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kActionWords; ++i) {
        action.program[next % 2][i].store(words[i], std::memory_order_relaxed);
    }
    action.version.store(next, std::memory_order_release);
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == our_handler;
}

void report_ignored(int number, const struct sigaction& program) {
    if (is_ignored(program) && actions[number].if_ignored.load(std::memory_order_relaxed) == IfIgnored::kSaid) {
        warn_once("%s is ignored by the program and asks for no dump; titan-dump does", name_or_signal(number));
    }
}

// The kernel's entry: our handler, with the mask and the flags that the program's handler counts on. Only SA_RESETHAND
// is played by us.
int install(int number, const struct sigaction& program) {
    if (is_ignored(program) && actions[number].if_ignored.load(std::memory_order_relaxed) != IfIgnored::kOurs) {
        return __sigaction(number, &program, nullptr);
    }
    struct sigaction kernel {};
    kernel.sa_sigaction = our_handler;
    if (has_handler(program)) {
        kernel.sa_mask = program.sa_mask;
        kernel.sa_flags = (program.sa_flags & ~static_cast<int>(SA_RESETHAND)) | SA_SIGINFO;
    } else {
        sigemptyset(&kernel.sa_mask);
        kernel.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    }
    return __sigaction(number, &kernel, nullptr);
}

// The part of an action that libc adds, as a program that reads its action back gets to see it. The kernel's entry is
// one that libc wrote: ours.
void add_restorer(int number, struct sigaction& program) {
    constexpr int kRestorer = 0x04000000;  // SA_RESTORER of the kernel, where an architecture has it
    struct sigaction kernel {};
    __sigaction(number, nullptr, &kernel);
    program.sa_flags |= kernel.sa_flags & kRestorer;
    program.sa_restorer = kernel.sa_restorer;
}

}  // namespace

void own_signal(int number, SignalHandler handler, IfIgnored if_ignored) {
    Action& action = actions[number];
    struct sigaction current {};
    {
        const WriteLock lock;
        our_handler = handler;
        action.if_ignored.store(if_ignored, std::memory_order_relaxed);
        if (__sigaction(number, nullptr, &current) != 0) {
            return;
        }
        if (!is_ours(current)) {  // ours: inherited over a fork, with the program's action in the table
            store_action(number, current);
        } else {
            read_action(number, current);
        }
        action.owned.store(true, std::memory_order_release);
        install(number, current);
    }
    report_ignored(number, current);
}

void read_action(int number, struct sigaction& program) {
    const Action& action = actions[number];
    uint64_t words[kActionWords];
    uint32_t before = 0;
    do {
        before = action.version.load(std::memory_order_acquire);
        for (size_t i = 0; i < kActionWords; ++i) {
            words[i] = action.program[before % 2][i].load(std::memory_order_relaxed);
        }
        std::atomic_thread_fence(std::memory_order_acquire);  // partner: the fence of store_action
    } while (action.version.load(std::memory_order_relaxed) != before);
    memcpy(&program, words, sizeof(program));
}

void reset_action(int number, const struct sigaction& program) {
    struct sigaction standard = program;
    standard.sa_handler = SIG_DFL;
    const WriteLock lock;
    store_action(number, standard);
}

bool owns_signal(int number) {
    return number > 0 && number < kSignals && actions[number].owned.load(std::memory_order_acquire) &&
           !in_vfork_child();
}

int change_action(int number, const struct sigaction* action, struct sigaction* old) {
    struct sigaction wanted {};
    if (action != nullptr) {
        wanted = *action;  // a copy: it may be the same memory as `old`
    }
    int result = 0;
    {
        const WriteLock lock;
        if (old != nullptr) {
            read_action(number, *old);
        }
        if (action == nullptr) {
            return 0;
        }
        add_restorer(number, wanted);
        store_action(number, wanted);
        result = install(number, wanted);
    }
    report_ignored(number, wanted);
    return result;
}

bool in_vfork_child() {
    Session* current = session();
    return current != nullptr && current->identity.pid != getpid();
}

const char* name_or_signal(int number) {
    const char* const name = signal_name(number);
    return name != nullptr ? name : "signal";
}

}  // namespace titan::tracer

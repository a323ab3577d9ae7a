#include "ask_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/futex.h"
#include "base/map_private.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

enum class State : uint64_t { kFree = 0, kAsked, kCopying, kAnswered };

// The state and, above it, which question it is about: a late answer must not be taken for one to a newer question.
constexpr uint64_t kStates = 4;

struct Slot {
    std::atomic<uint64_t> state;
    uint64_t python_state;
    Answer answer;
};
constinit std::atomic<Slot*> slots{nullptr};
constinit uint64_t questions = 0;
constinit std::atomic<uint32_t> answers{0};  // futex word

uint64_t word(uint64_t question, State state) { return question * kStates + static_cast<uint64_t>(state); }

void give_answer(int, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    // Slot and question travel in the signal's value.
    const auto value = reinterpret_cast<uintptr_t>(info->si_value.sival_ptr);
    const uint64_t question = value / kAskedAtOnce;
    uint64_t expected = word(question, State::kAsked);
    Slot* const all = slots.load(std::memory_order_acquire);
    Slot* const slot = all == nullptr ? nullptr : &all[value % kAskedAtOnce];
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() && slot != nullptr &&
        slot->state.compare_exchange_strong(expected, word(question, State::kCopying))) {
        capture(slot->answer.thread, context);
        walk_python(slot->python_state, slot->answer.python);
        slot->state.store(word(question, State::kAnswered), std::memory_order_release);
        answers.fetch_add(1, std::memory_order_release);
        futex_wake_all(answers);
    }
    errno = saved_errno;
}

bool is_ours(const struct sigaction& action, int flags) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == give_answer &&
           (action.sa_flags & SA_ONSTACK) == flags;
}

bool is_free(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

// 0: there is none. From above: the low ones are what programs and libraries take first.
int take_signal(int flags) {
    struct sigaction action {};
    for (int number = SIGRTMAX - 1; number > SIGRTMIN; --number) {
        if (__sigaction(number, nullptr, &action) == 0 && is_ours(action, flags)) {
            return number;
        }
    }
    for (int number = SIGRTMAX - 1; number > SIGRTMIN; --number) {
        if (__sigaction(number, nullptr, &action) == 0 && is_free(action)) {
            struct sigaction ours {};
            ours.sa_sigaction = give_answer;
            ours.sa_flags = SA_SIGINFO | SA_RESTART | flags;
            sigemptyset(&ours.sa_mask);
            return __sigaction(number, &ours, nullptr) == 0 ? number : 0;
        }
    }
    return 0;
}

// Threads that have set an alternative stack up, by their ids. Two may share a bit, and a bit outlives its thread: then
// one is asked on the stack that it is on for nothing.
constexpr size_t kThreadBits = 64 << 10;
constinit std::atomic<uint64_t> with_alternative_stack[kThreadBits / 64]{};

bool has_set_alternative_stack(pid_t tid) {
    const size_t bit = static_cast<size_t>(tid) % kThreadBits;
    return (with_alternative_stack[bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
}

}  // namespace

bool prepare_asking() {
    if (slots == nullptr) {
        slots.store(map_private<Slot>(kAskedAtOnce + 1),
                    std::memory_order_release);  // the last: of nobody who is asked
    }
    return slots != nullptr;
}

void note_alternative_stack() {
    const size_t bit = static_cast<size_t>(gettid()) % kThreadBits;
    with_alternative_stack[bit / 64].fetch_or(uint64_t{1} << (bit % 64), std::memory_order_relaxed);
}

bool take_stack_signals(StackSignals& signals) {
    signals = {take_signal(SA_ONSTACK), take_signal(0)};
    return signals.alternative != 0 && signals.plain != 0;
}

void ask_thread(const StackSignals& signals, size_t slot, pid_t tid, uint64_t python_state) {
    const int number = has_set_alternative_stack(tid) ? signals.plain : signals.alternative;
    const uint64_t question = ++questions;
    Slot& of = slots.load(std::memory_order_relaxed)[slot];
    of.python_state = python_state;
    of.state.store(word(question, State::kAsked), std::memory_order_release);
    siginfo_t info{};
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = reinterpret_cast<void*>(question * kAskedAtOnce + slot);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &info) != 0) {
        of.state.store(0, std::memory_order_relaxed);
    }
}

void await_answers(uint64_t deadline_ns) {
    const Slot* const all = slots.load(std::memory_order_relaxed);
    futex_await(answers, deadline_ns, [all](uint32_t) {
        size_t open = 0;
        for (size_t i = 0; i < kAskedAtOnce; ++i) {
            const auto state = static_cast<State>(all[i].state.load(std::memory_order_acquire) % kStates);
            open += state == State::kAsked || state == State::kCopying ? 1 : 0;
        }
        return open == 0;
    });
}

const Answer* take_answer(size_t slot) {
    // A thread in the middle of copying gets the time that a copy may take; stopped there, its slot stays lost to it.
    constexpr uint64_t kCopyNs = 20'000'000;
    const uint64_t deadline_ns = monotonic_now_ns() + kCopyNs;
    Slot& of = slots.load(std::memory_order_relaxed)[slot];
    for (;;) {
        uint64_t state = of.state.load(std::memory_order_acquire);
        switch (static_cast<State>(state % kStates)) {
            case State::kAnswered: of.state.store(0, std::memory_order_relaxed); return &of.answer;
            case State::kAsked:
                if (of.state.compare_exchange_strong(state, 0)) {
                    return nullptr;
                }
                break;
            case State::kCopying:
                if (monotonic_now_ns() >= deadline_ns) {
                    return nullptr;
                }
                sched_yield();
                break;
            case State::kFree: return nullptr;
        }
    }
}

Answer& room_for_waiting() { return slots.load(std::memory_order_relaxed)[kAskedAtOnce].answer; }

void release_asking_memory() {
    if (Slot* const all = slots.load(std::memory_order_relaxed)) {
        for (size_t i = 0; i <= kAskedAtOnce; ++i) {
            const auto begin = (reinterpret_cast<uintptr_t>(all[i].answer.thread.stack) + 4095) / 4096 * 4096;
            const auto end = reinterpret_cast<uintptr_t>(all[i].answer.thread.stack + kStackCopyBytes) / 4096 * 4096;
            release_pages(reinterpret_cast<void*>(begin), end - begin);
        }
    }
}

namespace {

// A frame of a signal with all registers of the widest processors takes 12 KiB, and our handler as much.
constexpr uint64_t kHandlerBytes = 64 << 10;

}  // namespace

bool main_stack_may_grow() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return true;
    }
    char text[128];
    uint64_t pages = 0;
    read_small_file(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
    if (!parse_u64(text, strspn(text, "0123456789"), pages)) {
        return false;
    }
    const uint64_t used_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return used_bytes < limit.rlim_cur && limit.rlim_cur - used_bytes >= kHandlerBytes;
}

}  // namespace titan::tracer

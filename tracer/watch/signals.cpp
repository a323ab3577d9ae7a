#include "signals.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "aborting.h"
#include "base/signals.h"
#include "base/text.h"
#include "ending.h"
#include "program_actions.h"
#include "session.h"
#include "watch.h"

namespace titan::tracer {
namespace {

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kEnding[] = {SIGTERM, SIGINT};
constexpr uint64_t kCrashWaitNs = 5'000'000'000;
constexpr uint64_t kEndWaitNs = 3'000'000'000;
constexpr uint64_t kEndSnapshotWaitNs = 1'000'000'000;
constexpr uintptr_t kNearbyStackBytes = 1 << 20;

// The thread that is dying, 0 none.
constinit std::atomic<int> crashing_tid{0};
// The thread that waits for the dump of its crash: one that happens there is ours.
constinit std::atomic<int> dumping_tid{0};
// The newest call of the program's own handler of a fatal signal: where its frame lies, and on which thread.
constinit std::atomic<int> handled_tid{0};
constinit std::atomic<int> handled_number{0};
constinit std::atomic<bool> handled_blocks{false};  // the signal is blocked while its handler runs
constinit std::atomic<uintptr_t> handled_frame{0};

template <size_t N>
bool is_one_of(const int (&numbers)[N], int number) {
    for (int one : numbers) {
        if (one == number) {
            return true;
        }
    }
    return false;
}

bool is_fatal(int number) { return is_one_of(kFatal, number); }

// The signal that asks for a dump, 0 none. It may be one that ends programs.
constinit std::atomic<int> dump_signal{0};

bool is_ending(int number) {
    return is_one_of(kEnding, number) && number != dump_signal.load(std::memory_order_relaxed);
}

// Lets the kernel do what it would have done without us. A fault happens again when the handler returns; a signal that
// was sent is sent again, with the sender's information.
void take_default(int number, siginfo_t* info) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    __sigaction(number, &standard, nullptr);
    const bool refault = number != SIGABRT && is_fatal(number) && info != nullptr && info->si_code > 0 &&
                         !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
    if (!refault && (info == nullptr || syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info) != 0)) {
        syscall(SYS_tgkill, getpid(), gettid(), number);
    }
}

// A signal as it reached this thread, and what errno is to be when it goes on.
struct Delivered {
    int number;
    siginfo_t* info;
    void* context;
    int error;
};

void call_program(Delivered& signal, const struct sigaction& program) {
    if ((program.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
        reset_action(signal.number, program);
    }
    errno = signal.error;
    if ((program.sa_flags & SA_SIGINFO) != 0) {
        program.sa_sigaction(signal.number, signal.info, signal.context);
    } else {
        program.sa_handler(signal.number);
    }
    signal.error = errno;  // as the handler left it
}

void dump_crash(int number, const siginfo_t* info) {
    Session* current = session();
    int nobody = 0;
    if (current == nullptr || in_vfork_child()) {
        return;
    }
    if (!crashing_tid.compare_exchange_strong(nobody, gettid()) && nobody == gettid()) {
        return;  // a crash inside a crash
    }
    format::RingHeader& header = *current->ring_file.header;
    if (nobody == 0) {
        header.fatal_signal = number;
        header.fatal_thread = static_cast<uint32_t>(gettid());
        std::atomic_ref(header.state).store(format::ProcessState::kCrashed, std::memory_order_release);
        char detail[96];
        TextWriter text(detail, sizeof(detail));
        text.format("%s in thread %d", name_or_signal(number), gettid());
        if (info != nullptr && info->si_code > 0 && number != SIGABRT) {
            text.format(" at address 0x%lx", reinterpret_cast<uintptr_t>(info->si_addr));
        }
        request_dump(format::DumpReason::kCrash, detail);
    }
    dumping_tid.store(gettid(), std::memory_order_relaxed);
    wait_for_dump(kCrashWaitNs);
    dumping_tid.store(0, std::memory_order_relaxed);
}

// A word in the frame that has called the program's handler. Handlers are left by siglongjmp, too: then other frames
// overwrite it.
struct HandledFrame {
    std::atomic<uint64_t> mark;
};
constexpr uint64_t kHandledMark = 0x7469'7461'6e5f'6672;

void begin_handling(int number, const struct sigaction& program, HandledFrame& frame) {
    frame.mark.store(kHandledMark, std::memory_order_relaxed);
    handled_number.store(number, std::memory_order_relaxed);
    handled_blocks.store((program.sa_flags & SA_NODEFER) == 0, std::memory_order_relaxed);
    handled_frame.store(reinterpret_cast<uintptr_t>(&frame), std::memory_order_relaxed);
    handled_tid.store(gettid(), std::memory_order_release);
}

void end_handling(HandledFrame& frame) {
    handled_tid.store(0, std::memory_order_release);
    frame.mark.store(0, std::memory_order_relaxed);
}

// This thread is inside such a handler: its frame is above us on this stack, and the signal is as blocked as the kernel
// left it.
bool is_handling() {
    HandledFrame here;
    const uintptr_t frame = handled_frame.load(std::memory_order_relaxed);
    const auto now = reinterpret_cast<uintptr_t>(&here);
    if (handled_tid.load(std::memory_order_acquire) != gettid() || frame <= now || frame - now > kNearbyStackBytes) {
        return false;
    }
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return (!handled_blocks.load(std::memory_order_relaxed) ||
            sigismember(&blocked, handled_number.load(std::memory_order_relaxed)) == 1) &&
           reinterpret_cast<HandledFrame*>(frame)->mark.load(std::memory_order_relaxed) == kHandledMark;
}

void handle_fatal(Delivered& signal) {
    struct sigaction program {};
    read_action(signal.number, program);
    if (has_handler(program) && dumping_tid.load(std::memory_order_relaxed) != gettid()) {
        HandledFrame frame;
        begin_handling(signal.number, program, frame);
        call_program(signal, program);
        end_handling(frame);
        // abort() kills for certain, and without asking us again, once the handler has returned. raise() does not.
        if (signal.number == SIGABRT && is_sent_by_abort(signal.info, signal.context)) {
            dump_crash(signal.number, signal.info);
        }
        return;
    }
    const bool sent = signal.info != nullptr && signal.info->si_code <= 0;
    if (is_ignored(program) && sent && (signal.number != SIGABRT || !is_sent_by_abort(signal.info, signal.context))) {
        return;  // neither a fault nor abort() can be ignored, a kill can
    }
    dump_crash(signal.number, signal.info);
    take_default(signal.number, signal.info);
}

void handle_dump_signal(Delivered& signal) {
    const int number = signal.number;
    const siginfo_t* const info = signal.info;
    const bool ours = session() != nullptr && !in_vfork_child();
    if (ours) {
        char detail[96];
        TextWriter text(detail, sizeof(detail));
        text.text(name_or_signal(number));
        if (info != nullptr && info->si_code <= 0) {
            text.format(" from pid %d", info->si_pid);
        }
        request_dump(format::DumpReason::kSignal, detail);
    }
    struct sigaction program {};
    read_action(number, program);
    if (has_handler(program)) {
        call_program(signal, program);
    } else if (program.sa_handler == SIG_DFL && !ours) {
        take_default(number, signal.info);
    }
}

// Asked to end: where that is worth a dump (dump_policy.cpp) it shows what every thread does now. A handler of the
// program goes on only when its thread's stack is taken, as it may be the place where the program hangs; without one
// the process ends when its dump is written.
void handle_end_signal(Delivered& signal) {
    const int number = signal.number;
    const siginfo_t* const info = signal.info;
    struct sigaction program {};
    read_action(number, program);
    Session* current = session();
    const bool handled = has_handler(program);
    if (current != nullptr && !in_vfork_child()) {
        const int32_t sender = info != nullptr && info->si_code <= 0 ? info->si_pid : 0;
        note_end_signal(*current->ring_file.header, number, sender);
        char detail[96];
        TextWriter text(detail, sizeof(detail));
        text.text(name_or_signal(number));
        if (sender != 0) {
            text.format(" from pid %d", sender);
        }
        if (!handled) {
            set_job_state(JobState::kAskedToEnd);  // else its peers would call it dead
        }
        request_dump(format::DumpReason::kEnd, detail);
        if (handled) {
            wait_for_snapshot(kEndSnapshotWaitNs);
        } else {
            wait_for_dump(kEndWaitNs);
        }
    }
    if (handled) {
        call_program(signal, program);
    } else {
        take_default(number, signal.info);
    }
}

void handle(int number, siginfo_t* info, void* context) {
    Delivered signal{number, info, context, errno};
    if (is_ending(number)) {
        handle_end_signal(signal);
    } else if (is_fatal(number)) {
        handle_fatal(signal);
    } else {
        handle_dump_signal(signal);
    }
    errno = signal.error;
}

}  // namespace

bool program_handles_dump_signal() {
    struct sigaction program {};
    read_action(dump_signal.load(std::memory_order_relaxed), program);
    return has_handler(program);
}

int32_t crashing_thread() { return crashing_tid.load(std::memory_order_acquire); }

void install_signals(const Config& config) {
    crashing_tid.store(0, std::memory_order_relaxed);
    dumping_tid.store(0, std::memory_order_relaxed);
    handled_tid.store(0, std::memory_order_relaxed);
    if (config.dump_signal == 0) {
        return;
    }
    find_abort();
    if ((config.dump_on & dump_bit(format::DumpReason::kSignal)) != 0) {
        dump_signal.store(config.dump_signal, std::memory_order_relaxed);
        own_signal(config.dump_signal, handle, IfIgnored::kSaid);
    }
    for (int number : kEnding) {  // also where they cause no dump: that they came is noted
        if (is_ending(number)) {
            own_signal(number, handle, IfIgnored::kIgnored);
        }
    }
    if ((config.dump_on & dump_bit(format::DumpReason::kCrash)) != 0) {
        for (int number : kFatal) {
            own_signal(number, handle, IfIgnored::kOurs);
        }
    }
}

bool exiting_from_crash() {
    if (!is_handling()) {
        return false;
    }
    dump_crash(handled_number.load(std::memory_order_relaxed), nullptr);
    return true;
}

}  // namespace titan::tracer

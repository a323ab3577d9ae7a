#include "may_ask.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"

namespace titan::tracer {
namespace {

using format::StackOutcome;

bool blocks_signal(const ProcThread& proc, int number) { return (proc.blocked_signals >> (number - 1) & 1) != 0; }

bool is_ours(pid_t tid, const ProcThread& proc) {
    return tid == gettid() || (blocks_signal(proc, SIGRTMAX - 1) && starts_with(proc.name, "titan-"));
}

// The kernel may kill a thread for a system call that this one may make: our handler would make such calls for it.
bool is_confined(const ProcThread& proc, const ProcThread& own) {
    constexpr int kStrict = 1;
    return proc.seccomp_mode == kStrict || proc.seccomp_mode > own.seccomp_mode ||
           proc.seccomp_filters > own.seccomp_filters;
}

}  // namespace

MayAsk::MayAsk(bool allowed) : allowed_(allowed), has_signals_(allowed && take_stack_signals(signals_)) {
    read_proc_thread(gettid(), own_);
}

StackOutcome MayAsk::outcome_of(pid_t tid, const ProcThread& proc) {
    const bool blocks =
        has_signals_ && (blocks_signal(proc, signals_.plain) || blocks_signal(proc, signals_.alternative));
    const bool hidden = is_hidden(proc);
    any_hidden_ = any_hidden_ || hidden;
    if (is_ours(tid, proc)) {
        return StackOutcome::kOurs;
    }
    const bool confined = is_confined(proc, own_);
    const bool has_room = tid != getpid() || main_stack_may_grow();
    if (proc.instruction == 0) {  // it cannot be read either
        any_confined_ = any_confined_ || confined;
        is_without_room_ = is_without_room_ || !has_room;
    }
    return hidden || confined || !has_room || !has_signals_ ? StackOutcome::kNotAsked
           : blocks                                         ? StackOutcome::kBlocksSignal
                                                            : StackOutcome::kNoAnswer;
}

const char* MayAsk::note() const {
    if (!has_signals_) {
        return allowed_ ? "the program uses all real-time signals: threads that run could not be asked"
                        : "TITANTRACE_SIGNAL=off: threads that run were not asked";
    }
    if (any_hidden_) {
        return "the system does not tell where threads wait (/proc/self/task/*/syscall): they were not asked, as a "
               "signal may end their wait";
    }
    if (any_confined_) {
        return "threads that run under a system call filter (seccomp) of their own were not asked: the answer might "
               "kill them";
    }
    return is_without_room_ ? "the main thread was not asked: the program's limit of memory (RLIMIT_AS) leaves its "
                              "stack no room to grow"
                            : nullptr;
}

bool is_hidden(const ProcThread& proc) {
    constexpr int64_t kUnknownCall = -2;  // ProcThread's value for it
    return proc.system_call == kUnknownCall && proc.state != 'R';
}

bool is_restarted(const ProcThread& proc) {
    constexpr int64_t kNoCall = -1;
    if (proc.system_call != SYS_futex) {
        return proc.system_call == kNoCall || proc.system_call == SYS_wait4 || proc.system_call == SYS_waitid;
    }
    const uint64_t operation = proc.arguments[1] & static_cast<uint64_t>(FUTEX_CMD_MASK);
    const bool no_limit = proc.arguments[3] == 0;
    return no_limit && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI);
}

}  // namespace titan::tracer

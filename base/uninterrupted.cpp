#include "base/uninterrupted.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace titan {

namespace {

constexpr uint64_t bit(int number) { return uint64_t{1} << (number - 1); }

constexpr uint64_t kFaults = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS);

// Uses the system call: libc's function leaves out its own signals, and one of them cancels threads.
void set_mask(int how, const uint64_t* signals, uint64_t* before) {
    const int saved_errno = errno;
    syscall(SYS_rt_sigprocmask, how, signals, before, sizeof(*signals));
    errno = saved_errno;
}

}  // namespace

Uninterrupted::Uninterrupted() : signals_(0) {
    const uint64_t held_back = ~kFaults;
    set_mask(SIG_BLOCK, &held_back, &signals_);
}

Uninterrupted::~Uninterrupted() { set_mask(SIG_SETMASK, &signals_, nullptr); }

NotCancelled::NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); }

NotCancelled::~NotCancelled() { pthread_setcancelstate(state_, nullptr); }

}  // namespace titan

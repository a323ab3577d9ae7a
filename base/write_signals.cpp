#include "base/write_signals.h"

#include <errno.h>
#include <time.h>

namespace titan {
namespace {

constexpr int kOfFailures[] = {SIGPIPE, SIGXFSZ};

}  // namespace

WithoutWriteSignals::WithoutWriteSignals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTTOU);
    for (const int number : kOfFailures) {
        sigaddset(&blocked, number);
    }
    sigemptyset(&pending_before_);
    sigpending(&pending_before_);
    pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
}

WithoutWriteSignals::~WithoutWriteSignals() {
    const int saved = errno;
    for (const int number : kOfFailures) {
        if (sigismember(&pending_before_, number) == 0) {
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, number);
            const timespec now{};
            sigtimedwait(&one, nullptr, &now);
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    errno = saved;
}

}  // namespace titan

#include "base/signals.h"

#include <errno.h>
#include <strings.h>
#include <time.h>

namespace titan {

namespace {

struct SignalName {
    int number;
    const char* name;
};

#define TITAN_SIGNAL(name) \
    { SIG##name, "SIG" #name }
constexpr SignalName kNames[] = {
    TITAN_SIGNAL(HUP),    TITAN_SIGNAL(INT),  TITAN_SIGNAL(QUIT), TITAN_SIGNAL(ILL),  TITAN_SIGNAL(TRAP),
    TITAN_SIGNAL(ABRT),   TITAN_SIGNAL(BUS),  TITAN_SIGNAL(FPE),  TITAN_SIGNAL(KILL), TITAN_SIGNAL(USR1),
    TITAN_SIGNAL(SEGV),   TITAN_SIGNAL(USR2), TITAN_SIGNAL(PIPE), TITAN_SIGNAL(ALRM), TITAN_SIGNAL(TERM),
    TITAN_SIGNAL(STKFLT), TITAN_SIGNAL(CHLD), TITAN_SIGNAL(CONT), TITAN_SIGNAL(STOP), TITAN_SIGNAL(TSTP),
    TITAN_SIGNAL(TTIN),   TITAN_SIGNAL(TTOU), TITAN_SIGNAL(URG),  TITAN_SIGNAL(XCPU), TITAN_SIGNAL(XFSZ),
    TITAN_SIGNAL(VTALRM), TITAN_SIGNAL(PROF), TITAN_SIGNAL(IO),   TITAN_SIGNAL(PWR),  TITAN_SIGNAL(SYS),
    TITAN_SIGNAL(WINCH),
};
#undef TITAN_SIGNAL
constexpr size_t kPrefix = 3;  // length of "SIG"

constexpr int kOfFailures[] = {SIGPIPE, SIGXFSZ};

}  // namespace

const char* signal_name(int number) {
    for (const SignalName& known : kNames) {
        if (known.number == number) {
            return known.name;
        }
    }
    return nullptr;
}

int signal_named(const char* name) {
    const char* const bare = strncasecmp(name, "SIG", kPrefix) == 0 ? name + kPrefix : name;
    for (const SignalName& known : kNames) {
        if (strcasecmp(known.name + kPrefix, bare) == 0) {
            return known.number;
        }
    }
    return 0;
}

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

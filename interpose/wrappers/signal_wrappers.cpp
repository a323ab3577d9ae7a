// sigaction and its relatives: for a signal that the tracer owns the program's action is changed in the tracer's table,
// for every other the real function is called. Before the session no signal is owned. sigaltstack is only noted.
//
// signal-safe, before our constructor, too: looking the real functions up takes no lock.
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/signals.h"
#include "libc_function.h"
#include "libc_wrappers.h"
#include "tracer/signal_actions.h"

namespace titan::interpose {
namespace {

using Handler = void (*)(int);

enum class SignalApi {
#define SIGNAL(name, ...) k_##name,
#include "signals.def"
#undef SIGNAL
    kCount
};

constinit std::atomic<void*> real_functions[static_cast<size_t>(SignalApi::kCount)]{};

// bsd_signal and ssignal are gone from some libcs: their meaning is that of signal.
void* real_function(SignalApi api, const char* name) {
    return libc_function(real_functions[static_cast<size_t>(api)], name);
}

int change_handler(int number, Handler handler, int flags, Handler& old_handler) {
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    const int result = tracer::change_action(number, &action, &old);
    old_handler = old.sa_handler;
    return result;
}

int wrap_action(SignalApi api, const char* name, int, int number, const struct sigaction* action,
                struct sigaction* old) {
    if (tracer::owns_signal(number)) {
        return tracer::change_action(number, action, old);
    }
    auto* const real = reinterpret_cast<decltype(&::__sigaction)>(real_function(api, name));
    return real != nullptr ? real(number, action, old) : __sigaction(number, action, old);
}

Handler wrap_handler(SignalApi api, const char* name, int flags, int number, Handler handler) {
    if (!tracer::owns_signal(number)) {
        auto* const real = reinterpret_cast<Handler (*)(int, Handler)>(real_function(api, name));
        if (real == nullptr) {
            errno = ENOSYS;
        }
        return real != nullptr ? real(number, handler) : SIG_ERR;
    }
    Handler old = SIG_ERR;
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return change_handler(number, handler, flags, old) == 0 ? old : SIG_ERR;
}

// System V's sigset also moves the signal in and out of the thread's mask, and tells so by SIG_HOLD.
Handler wrap_set(SignalApi api, const char* name, int flags, int number, Handler handler) {
    if (!tracer::owns_signal(number) || handler == SIG_ERR) {
        return wrap_handler(api, name, flags, number, handler);
    }
    sigset_t one;
    sigset_t before;
    sigemptyset(&one);
    sigaddset(&one, number);
    Handler old = SIG_DFL;
    if (handler == SIG_HOLD) {
        struct sigaction current {};
        tracer::change_action(number, nullptr, &current);
        old = current.sa_handler;
    } else if (change_handler(number, handler, flags, old) != 0) {
        return SIG_ERR;
    }
    pthread_sigmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &before);
    return sigismember(&before, number) == 1 ? SIG_HOLD : old;
}

int wrap_ignore(SignalApi api, const char* name, int flags, int number) {
    if (!tracer::owns_signal(number)) {
        auto* const real = reinterpret_cast<int (*)(int)>(real_function(api, name));
        return real != nullptr ? real(number) : -1;
    }
    Handler old = SIG_DFL;
    return change_handler(number, SIG_IGN, flags, old);
}

int wrap_stack(SignalApi api, const char* name, int, const stack_t* stack, stack_t* old) {
    auto* const real = reinterpret_cast<decltype(&::sigaltstack)>(real_function(api, name));
    const int result = real != nullptr ? real(stack, old) : static_cast<int>(syscall(SYS_sigaltstack, stack, old));
    if (result == 0 && stack != nullptr) {
        tracer::note_alternative_stack();
    }
    return result;
}

}  // namespace

void find_signal_functions() {
#define SIGNAL(name, ...) real_function(SignalApi::k_##name, #name);
#include "signals.def"
#undef SIGNAL
}

}  // namespace titan::interpose

#define TITAN_SIGNATURE_action(name) \
    int name(int number, const struct sigaction* action, struct sigaction* old) noexcept
#define TITAN_ARGUMENTS_action number, action, old
#define TITAN_SIGNATURE_handler(name) void (*name(int number, void (*handler)(int)) noexcept)(int)
#define TITAN_ARGUMENTS_handler number, handler
#define TITAN_SIGNATURE_set(name) TITAN_SIGNATURE_handler(name)
#define TITAN_ARGUMENTS_set number, handler
#define TITAN_SIGNATURE_ignore(name) int name(int number) noexcept
#define TITAN_ARGUMENTS_ignore number
#define TITAN_SIGNATURE_stack(name) int name(const stack_t* stack, stack_t* old) noexcept
#define TITAN_ARGUMENTS_stack stack, old

#define SIGNAL(name, shape, flags)                                                                   \
    extern "C" __attribute__((visibility("default"))) TITAN_SIGNATURE_##shape(name) {                \
        return titan::interpose::wrap_##shape(titan::interpose::SignalApi::k_##name, #name, (flags), \
                                              TITAN_ARGUMENTS_##shape);                              \
    }
#include "signals.def"
#undef SIGNAL

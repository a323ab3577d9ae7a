#include "own_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "thread_state.h"

namespace titan::tracer {

namespace {

// Calls into the driver happen on these stacks.
constexpr size_t kStackBytes = 1 << 20;

// Start arguments live here, not on the heap; a slot is free again once its thread has copied it.
struct Start {
    std::atomic<bool> taken;
    const char* name;
    void (*body)(void*);
    void* argument;
};
constinit Start starts[4]{};

void* run(void* opaque) {
    auto* const slot = static_cast<Start*>(opaque);
    const char* const name = slot->name;
    void (*const body)(void*) = slot->body;
    void* const argument = slot->argument;
    slot->taken.store(false, std::memory_order_release);
    prctl(PR_SET_NAME, name);
    mark_thread_as_ours();
    body(argument);
    return nullptr;
}

}  // namespace

bool start_own_thread(const char* name, void (*body)(void*), void* argument) {
    Start* slot = nullptr;
    for (Start& candidate : starts) {
        bool expected = false;
        if (candidate.taken.compare_exchange_strong(expected, true)) {
            slot = &candidate;
            break;
        }
    }
    if (slot == nullptr) {
        return false;
    }
    slot->name = name;
    slot->body = body;
    slot->argument = argument;

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool started = pthread_create(&thread, &attributes, run, slot) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (!started) {
        slot->taken.store(false, std::memory_order_release);
    }
    return started;
}

}  // namespace titan::tracer

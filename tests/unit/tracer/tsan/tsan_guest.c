// What a program or library of these tests has besides the tracer.
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

extern int __interceptor_sigaction(int number, const struct sigaction* action, struct sigaction* old);

// The tracer installs its handlers through libc's own name for sigaction, past ThreadSanitizer, which could then be
// interrupted anywhere in its own work. Here that name goes to ThreadSanitizer's sigaction: it runs a handler where it
// is able to.
__attribute__((visibility("hidden"))) int __sigaction(int number, const struct sigaction* action,
                                                      struct sigaction* old) {
    return __interceptor_sigaction(number, action, old);
}

static int unguarded;

static void* race(void* unused) {
    ++unguarded;
    return unused;
}

// TITAN_TSAN_SELF_TEST: a true race, which whoever looks for reports must find.
__attribute__((constructor)) static void self_test(void) {
    pthread_t others[2];
    if (getenv("TITAN_TSAN_SELF_TEST") == NULL) {
        return;
    }
    for (int i = 0; i < 2; ++i) {
        if (pthread_create(&others[i], NULL, race, NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < 2; ++i) {
        pthread_join(others[i], NULL);
    }
}

// What a storm loads and unloads: a library with a constructor that has a signal handler of its own in mind, as many
// have.
#define _GNU_SOURCE
#include <signal.h>

__attribute__((constructor)) static void begin(void) {
    struct sigaction before;
    sigaction(SIGSEGV, 0, &before);
}

__attribute__((visibility("default"))) int storm_twice(int value) { return 2 * value; }

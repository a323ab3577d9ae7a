/* time() and gettimeofday() of a library that has its own clock_gettime(), for programs that it is preloaded into. */
#pragma once

#include <stddef.h>
#include <sys/time.h>
#include <time.h>

__attribute__((visibility("default"))) time_t time(time_t* now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL) {
        *now = precise.tv_sec;
    }
    return precise.tv_sec;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval* restrict now, void* restrict zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

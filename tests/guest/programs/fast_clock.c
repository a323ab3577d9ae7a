/* Preloaded: all clocks of time stand until the program calls run_fast_clock, and run $FAST_CLOCK times as fast from
   then on. So do sleeps and waits with a limit, those of raw system calls, too; clocks of processor time stay as they
   are. A program lives a day in seconds. No recorder trusts the processor's counter beside a clock that stands. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../time_of_day.h"

#define EXPORT __attribute__((visibility("default")))

static const int64_t kSecond = 1000000000;
static int64_t factor = 1;
static _Atomic int64_t began_ns; /* on the machine's monotonic clock, 0: not yet */
static int64_t origins_ns[2];    /* of the clock of the day, and of all others; 0: not read yet */

static int64_t ns_of(struct timespec time) { return time.tv_sec * kSecond + time.tv_nsec; }

static struct timespec time_of(int64_t ns) {
    const struct timespec time = {ns / kSecond, ns % kSecond};
    return time;
}

/* The recorder calls it before anything of this library has run. */
static long (*real_syscall(void))(long, ...) {
    static long (*_Atomic found)(long, ...);
    if (found == NULL) {
        found = (long (*)(long, ...))(intptr_t)dlsym(RTLD_NEXT, "syscall");
    }
    return found;
}

static int64_t real_ns(clockid_t id) {
    struct timespec now;
    real_syscall()(SYS_clock_gettime, id, &now);
    return ns_of(now);
}

__attribute__((constructor)) static void start(void) {
    const char* const text = getenv("FAST_CLOCK");
    origins_ns[0] = real_ns(CLOCK_REALTIME);
    origins_ns[1] = real_ns(CLOCK_MONOTONIC);
    factor = text != NULL ? strtol(text, NULL, 10) : 1;
}

EXPORT void run_fast_clock(void) { began_ns = real_ns(CLOCK_MONOTONIC); }

EXPORT int clock_gettime(clockid_t id, struct timespec* now) {
    const int is_of_day = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    const int is_other =
        id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME;
    if (!is_of_day && !is_other) {
        return (int)real_syscall()(SYS_clock_gettime, id, now);
    }
    if (origins_ns[1] == 0) {
        return (int)real_syscall()(SYS_clock_gettime, id, now);
    }
    const int64_t began = began_ns;
    *now = time_of(origins_ns[is_other] + (began == 0 ? 0 : (real_ns(CLOCK_MONOTONIC) - began) * factor));
    return 0;
}

EXPORT int nanosleep(const struct timespec* pause, struct timespec* rest) {
    const struct timespec shorter = time_of(ns_of(*pause) / factor);
    return (int)real_syscall()(SYS_nanosleep, &shorter, rest);
}

EXPORT int usleep(useconds_t us) {
    const struct timespec pause = time_of((int64_t)us * 1000);
    return nanosleep(&pause, NULL);
}

EXPORT long syscall(long number, ...) {
    long words[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; ++i) {
        words[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    struct timespec shorter;
    if (number == SYS_nanosleep) {
        return nanosleep((const struct timespec*)words[0], (struct timespec*)words[1]);
    }
    if (number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && words[3] != 0) {
        shorter = time_of(ns_of(*(const struct timespec*)words[3]) / factor);
        words[3] = (long)&shorter;
    }
    return real_syscall()(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

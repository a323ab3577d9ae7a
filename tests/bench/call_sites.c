/* Loaded into Python by call_site_costs.py: NCCL calls from a stack of known depth, whose real function does nothing.
 */
#define _GNU_SOURCE
#include <nccl.h>
#include <time.h>

static ncclComm_t comm;
static float buffer[4];

/* The name that callgrind's --toggle-collect is given. */
__attribute__((noinline)) void measured(long n) {
    for (long i = 0; i < n; ++i) {
        ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, comm, NULL);
    }
}

static double time_of(long n) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    measured(n);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)n;
}

/* Nanoseconds of one call, `depth` native frames further in. */
__attribute__((noinline)) double nanoseconds_per_call(int depth, long n) {
    volatile char frame[48];
    frame[0] = (char)depth;
    const double found = depth > 0 ? nanoseconds_per_call(depth - 1, n) : time_of(n);
    frame[1] = frame[0];
    return found;
}

void start(void) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 8, id, 3);
    measured(1000);
}

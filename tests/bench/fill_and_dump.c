/* Fills every collective slot of the ring with varied calls, says "filled", and does what the lines of its input say:
 * "dump" prints titan_dump's result and its duration in milliseconds, "cpu" the processor time of this process in
 * milliseconds. */
#define _POSIX_C_SOURCE 200809L
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "titantrace.h"

static double now_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
    const long collectives = argc > 1 ? atol(argv[1]) : 20000;
    static char pool[1 << 20];
    ncclComm_t comm;
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 8, id, 3);
    uint32_t state = 12345;
    for (long i = 0; i < collectives; ++i) {
        state = state * 1664525u + 1013904223u; /* varied as in a model: buffers and sizes repeat from step to step */
        const size_t bucket = (size_t)(i % 97);
        if (bucket == 0) {
            titan_step(i / 97);
        }
        ncclAllReduce(pool + bucket * 512, pool + bucket * 512, 1000 + bucket * 8191 + (state >> 31), ncclBfloat16,
                      ncclSum, comm, NULL);
        titan_span_begin(bucket % 2 ? "forward" : "backward");
        titan_span_end();
    }
    puts("filled");
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof(line), stdin) != NULL; fflush(stdout)) {
        if (strcmp(line, "dump\n") == 0) {
            const double before = now_ms(CLOCK_MONOTONIC);
            const int status = titan_dump("benchmark");
            printf("%d %.3f\n", status, now_ms(CLOCK_MONOTONIC) - before);
        } else {
            printf("%.3f\n", now_ms(CLOCK_PROCESS_CPUTIME_ID));
        }
    }
    return 0;
}

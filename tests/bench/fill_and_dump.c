/* Fills every collective slot of the ring with varied calls, then dumps: prints the dump's duration in milliseconds, waits
 * for a line on its input (so that the caller can look at the ring's memory), and ends. */
#define _POSIX_C_SOURCE 200809L
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "titantrace.h"

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
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
    const double before = now_ms();
    const int status = titan_dump("benchmark");
    printf("%d %.3f\n", status, now_ms() - before);
    fflush(stdout);
    (void)getchar();
    return 0;
}

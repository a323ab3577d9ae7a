/* Calls functions inside measured(), for callgrind: `count_calls WHAT[,WHAT...] N`, each N times and then 2 N times;
 * the difference is what N calls cost, whatever start-up and first calls cost. `count_calls WHAT N DEPTH REPEATS` makes
 * N calls that many native frames deep, and prints the least time of one of them in any repeat in nanoseconds. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "titantrace.h"

int calls_cuda_first(void); /* first_caller.c */

static ncclComm_t comm;
static float buffer[4];

static void all_reduce(long i) {
    (void)i;
    ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, comm, NULL);
}
static void observed_all_reduce(long i) { /* on a stream that is a handle, as frameworks' are */
    (void)i;
    ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, comm, (cudaStream_t)&comm);
}
static void reduce_scatter(long i) {
    (void)i;
    ncclReduceScatter(buffer, buffer, 4, ncclFloat32, ncclSum, comm, NULL);
}
static void step(long i) { titan_step(i); }
static void span(long i) {
    (void)i;
    titan_span_begin("forward");
    titan_span_end();
}
static void event(long i) {
    (void)i;
    titan_event("checkpoint saved");
}
static void metric(long i) { titan_metric("loss", (double)i); }
static const char kernel[8]; /* a handle is an address */
static void launch(long i) {
    const dim3 one = {1, 1, 1};
    cudaLaunchKernel(kernel, one, one, NULL, 0, (cudaStream_t)&comm);
    (void)i;
}
static void inner_launch(long i) {
    const dim3 one = {1, 1, 1};
    cudaLaunchCooperativeKernel(kernel, one, one, NULL, 0, (cudaStream_t)&comm);
    (void)i;
}
static void event_record(long i) {
    cudaEventRecord((cudaEvent_t)&buffer, (cudaStream_t)&comm);
    (void)i;
}
static void* nccl;
static void lookup(long i) {
    (void)i;
    dlsym(nccl, "ncclAllReduce");
}
static void foreign_lookup(long i) {
    (void)i;
    dlsym(nccl, "pncclAllReduce");
}

static const CUstream stream = (CUstream)&buffer;
static CUgraphExec graph_with_calls, graph_without;
static void graph_launch(long i) {
    (void)i;
    cuGraphLaunch(graph_with_calls, stream);
}
static void empty_graph(long i) {
    (void)i;
    cuGraphLaunch(graph_without, stream);
}
static void capture_graphs(void) {
    CUgraph graph;
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < 100; ++i) {
        ncclAllReduce(buffer, buffer, 4, ncclFloat32, ncclSum, comm, stream);
    }
    cuStreamEndCapture(stream, &graph);
    cuGraphInstantiateWithFlags(&graph_with_calls, graph, 0);
    cuGraphInstantiateWithFlags(&graph_without, NULL, 0);
}

static const struct {
    const char* name;
    void (*call)(long);
} calls[] = {{"all_reduce", all_reduce},
             {"observed_all_reduce", observed_all_reduce},
             {"reduce_scatter", reduce_scatter},
             {"step", step},
             {"span", span},
             {"event", event},
             {"metric", metric},
             {"graph_launch", graph_launch},
             {"empty_graph", empty_graph},
             {"launch", launch},
             {"inner_launch", inner_launch},
             {"event_record", event_record},
             {"lookup", lookup},
             {"foreign_lookup", foreign_lookup}};

/* The name that callgrind's --toggle-collect is given. */
__attribute__((noinline)) void measured(void (*call)(long), long n) {
    for (long i = 0; i < n; ++i) {
        call(i);
    }
}

static inline __attribute__((always_inline)) double nanoseconds_per_call(void (*call)(long), long n) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    measured(call, n);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)n;
}

/* Not by tail calls: each has a frame of its own. */
__attribute__((noinline)) static double at_depth(int depth, void (*call)(long), long n) {
    volatile char frame[40];
    frame[0] = (char)depth;
    const double found = depth > 1 ? at_depth(depth - 1, call, n) : nanoseconds_per_call(call, n);
    frame[1] = frame[0];
    return found;
}

/* The call's own function and measured; main and three of the start-up. */
enum { kOtherFrames = 6 };

static void run_at_depth(int depth, int repeats, void (*call)(long), long n) {
    double least = 1e18;
    for (int i = 0; i < repeats; ++i) {
        const double found = at_depth(depth - kOtherFrames, call, n);
        least = found < least ? found : least;
    }
    printf("%.2f\n", least);
}

static void (*call_named(const char* name))(long) {
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        if (strcmp(calls[i].name, name) == 0) {
            return calls[i].call;
        }
    }
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: count_calls WHAT[,WHAT...] N [DEPTH REPEATS]\n");
        return 2;
    }
    if (!calls_cuda_first()) {
        return 1;
    }
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, 8, id, 3);
    capture_graphs();
    nccl = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    const long n = atol(argv[2]);
    for (char* name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
        void (*const call)(long) = call_named(name);
        if (call == NULL) {
            fprintf(stderr, "count_calls: no call named %s\n", name);
            return 2;
        }
        for (long warm = 0; warm < 64; ++warm) {
            call(warm);
        }
        if (argc == 5) {
            run_at_depth(atoi(argv[3]), atoi(argv[4]), call, n);
        } else {
            measured(call, n);
            measured(call, 2 * n);
        }
    }
    return 0;
}

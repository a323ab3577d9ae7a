/*
 * titantrace.h: markers for the titantrace flight recorder. C99 and C++.
 *
 * Include it and call; link nothing. With LD_PRELOAD=libtitantrace.so the calls are recorded in this process' ring,
 * next to its collectives. Without it every call is a no-op that costs one test of a pointer: the functions are weak
 * symbols.
 *
 * All functions may be called from any thread at any time, take no lock, allocate nothing and make no system call
 * (titan_dump apart). None fails: what cannot be recorded is counted and shown by titan-analyze. Strings are copied
 * (UTF-8, cut at 240 bytes) and may be freed afterwards. Some 6,000 different ones fit at a time; those that no record
 * holds any more make room for others. A null string is taken as "".
 *
 * From Python: ctypes.CDLL(None).titan_step(12), if hasattr.
 */
#ifndef TITANTRACE_H
#define TITANTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tracer itself defines these functions. Elsewhere `titan_x` is an inline function that calls the tracer's, a weak
 * symbol that is null when no tracer is in the process. It is always inlined, so that the tracer is called from the
 * place in the program; where its address is taken, it has a symbol of another name, because a function with the symbol
 * titan_x would call itself. */
#if defined(TITAN_IN_TRACER)
#define TITAN_DECLARE(type, name, params) __attribute__((visibility("default"))) type name params;
#define TITAN_MARKER(name, params, call) TITAN_DECLARE(void, name, params)
#define TITAN_MARKER_OR(type, none, name, params, call) TITAN_DECLARE(type, name, params)
#else
#define TITAN_DECLARE(type, name, params)                                     \
    extern type name##_in_tracer params __asm__(#name) __attribute__((weak)); \
    static inline __attribute__((always_inline)) type name params __asm__("titan_inline_" #name);
#define TITAN_MARKER(name, params, call)                            \
    TITAN_DECLARE(void, name, params)                               \
    static inline __attribute__((always_inline)) void name params { \
        if (name##_in_tracer) {                                     \
            name##_in_tracer call;                                  \
        }                                                           \
    }
#define TITAN_MARKER_OR(type, none, name, params, call)             \
    TITAN_DECLARE(type, name, params)                               \
    static inline __attribute__((always_inline)) type name params { \
        return name##_in_tracer ? name##_in_tracer call : (none);   \
    }
#endif

/* The training step that begins now, for the whole process. Entries recorded from now on carry it. */
TITAN_MARKER(titan_step, (int64_t step), (step))

/* Opens a span ("forward", "optimizer") on the calling thread; spans nest. */
TITAN_MARKER(titan_span_begin, (const char* name), (name))

/* Closes the innermost open span of the calling thread; without one it does nothing. */
TITAN_MARKER(titan_span_end, (void), ())

/* A moment worth a name ("checkpoint saved"). */
TITAN_MARKER(titan_event, (const char* name), (name))

/* A number at this moment ("loss", 2.31). Put the unit in the name: "tokens_per_s". */
TITAN_MARKER(titan_metric, (const char* name, double value), (name, value))

/* A fact about this process: a parallel dimension ("dp", "3"; "tp", "0"; "pp", "1"), its role ("role", "trainer",
 * "generator" or "controller") or a tag of the run. A later value for the same key replaces the earlier one. */
TITAN_MARKER(titan_label, (const char* key, const char* value), (key, value))

/* The same step, counted also from where this run (re)started: 1 for its first. */
TITAN_MARKER(titan_step_relative, (int64_t step, int64_t relative_step), (step, relative_step))

/* A word about the step that is under way ("eval", "gc"); the next step begins without. */
TITAN_MARKER(titan_step_tag, (const char* tag), (tag))

/* What a marker tells beside its name. Zeros, and no titan_mark at all, mean: now, from here, for this thread. */
typedef struct titan_mark {
    size_t bytes;    /* sizeof(titan_mark) */
    int64_t time_ns; /* when it was, on `clock`; 0: now. What lies ahead is taken for now */
    int32_t clock;   /* CLOCK_REALTIME (0, since 1970) or CLOCK_MONOTONIC (1), as in <time.h> */
    uint32_t site;   /* from titan_site(); 0: where the call comes from */
    uint64_t task;   /* spans: number of the task (of asyncio, a fiber) that is in it, since tasks of one thread take
                        turns; 0: the thread itself */
    uint64_t parent; /* spans: the span that it lies in; 0: the innermost one of the thread, and for tasks none */
} titan_mark;

/* Opens a span that any thread may close, and returns its id: never 0 where it is recorded. Without a task it also is
 * the innermost span of the calling thread until it is closed, as with titan_span_begin. At most 8,192 are open at a
 * time; more are counted. `mark` may be null. */
TITAN_MARKER_OR(uint64_t, 0, titan_span_open, (const char* name, const titan_mark* mark), (name, mark))

/* Closes it. An id that is not open is ignored and counted: closed twice, 0 aside, or of another process. */
TITAN_MARKER(titan_span_close, (uint64_t span, const titan_mark* mark), (span, mark))

/* A moment with what a titan_mark tells; returns its id, for attributes. */
TITAN_MARKER_OR(uint64_t, 0, titan_event_at, (const char* name, const titan_mark* mark), (name, mark))

/* It failed: a span (open or closed) or an event, by its id; 0: the innermost span of the calling thread. */
TITAN_MARKER(titan_error, (uint64_t id, const char* message), (id, message))

/* A fact about a span (open or closed) or an event, by its id; 0: the innermost span of the calling thread. */
TITAN_MARKER(titan_attribute_text, (uint64_t id, const char* key, const char* value), (id, key, value))
TITAN_MARKER(titan_attribute_integer, (uint64_t id, const char* key, int64_t value), (id, key, value))
TITAN_MARKER(titan_attribute_double, (uint64_t id, const char* key, double value), (id, key, value))

/* How values of a metric are joined, over the calls of a step and over ranks. */
enum titan_reduction {
    TITAN_REDUCE_NONE = 1,
    TITAN_REDUCE_MEAN = 2, /* weighted: sum of value x weight over sum of weight */
    TITAN_REDUCE_SUM = 3,
    TITAN_REDUCE_MIN = 4,
    TITAN_REDUCE_MAX = 5,
    TITAN_REDUCE_STD = 6,
    TITAN_REDUCE_LAST = 7
};

/* As titan_metric, with its meaning. `weight` counts for means ("tokens in this batch"): 1 where all are alike; one
 * that is negative or not finite counts as 0. */
TITAN_MARKER(titan_metric_as, (const char* name, double value, double weight, int reduction, const titan_mark* mark),
             (name, value, weight, reduction, mark))

/* A place in the program for titan_mark.site, for languages whose calls come from elsewhere: "train.py:40 step". Give
 * each place once and keep the number: it holds for the life of the process, and is 0 where nothing is recorded yet. */
TITAN_MARKER_OR(uint32_t, 0, titan_site, (const char* place), (place))

/* Names a communicator ("dp", "tp.3") for the verdict. `nccl_comm` is the ncclComm_t; unknown ones are ignored. */
TITAN_MARKER(titan_comm_name, (void* nccl_comm, const char* name), (nccl_comm, name))

/* Asks every rank of the job for a dump and waits, 10 s at most, until this rank's is written. `reason` is shown in it.
 * Returns 0 when it is written, -1 when it is not (no tracer, recording off, or out of time). Not signal-safe. */
TITAN_DECLARE(int, titan_dump, (const char* reason))
#if !defined(TITAN_IN_TRACER)
static inline int titan_dump(const char* reason) { return titan_dump_in_tracer ? titan_dump_in_tracer(reason) : -1; }
#endif

/* A call of NCCL that this process made. Times are nanoseconds since 1970, 0 where nothing is known, or not yet. */
typedef struct titan_call {
    uint64_t ticket;       /* n-th call of the process, from 0 */
    uint64_t communicator; /* id, equal on all members; 0 unknown */
    int64_t sequence;      /* collectives: n-th of the communicator; sends, receives: n-th with this peer; -1 */
    uint64_t count;        /* elements */
    uint64_t group;        /* n-th group of the process from 1, 0 outside groups */
    int64_t step;          /* -1 before the first */
    int64_t entered_ns;
    int64_t returned_ns;
    int64_t gpu_started_ns;
    int64_t gpu_finished_ns;
    int32_t peer;      /* rank of the root or peer in the communicator, -1 none */
    int32_t comm_rank; /* of the caller, -1 unknown */
    int32_t device;    /* -1 unknown */
    int32_t result;    /* ncclResult_t, -1 not returned yet */
    uint32_t thread;   /* kernel's id of the caller's thread */
    uint32_t reserved;
    const char* op; /* "all_reduce"; these four are never null, and valid for ever */
    const char* datatype;
    const char* reduction;
    const char* state;
    char communicator_name[64]; /* empty where it has none */
    char span[64];              /* innermost one of the thread */
} titan_call;

/* Copies the newest `most` calls of this process, oldest first, and returns how many it copied: fewer where the ring
 * holds fewer, or other threads are writing some of them. `call_bytes` is sizeof(titan_call). Writes no file, may be
 * called from any thread while others call NCCL, takes no lock, and allocates nothing. */
TITAN_DECLARE(size_t, titan_record, (titan_call * calls, size_t most, size_t call_bytes))
#if !defined(TITAN_IN_TRACER)
static inline size_t titan_record(titan_call* calls, size_t most, size_t call_bytes) {
    return titan_record_in_tracer ? titan_record_in_tracer(calls, most, call_bytes) : 0;
}
#endif

#undef TITAN_MARKER_OR
#undef TITAN_MARKER
#undef TITAN_DECLARE

#ifdef __cplusplus
}
#endif

#endif /* TITANTRACE_H */

/*
 * titantrace.h: markers for the titantrace flight recorder. C99 and C++.
 *
 * Include it and call; link nothing. With LD_PRELOAD=libtitantrace.so the calls are recorded in this process' ring, next
 * to its collectives. Without it every call is a no-op that costs one test of a pointer: the functions are weak symbols.
 *
 * All functions may be called from any thread at any time, take no lock, allocate nothing and make no system call
 * (titan_dump apart). None fails: what cannot be recorded is counted and shown by titan-analyze. Strings are copied
 * (UTF-8, cut at 240 bytes), may be freed afterwards, and should come from a bounded set: 4,096 different ones fit.
 * A null string is taken as "".
 *
 * From Python: ctypes.CDLL(None).titan_step(12), if hasattr.
 */
#ifndef TITANTRACE_H
#define TITANTRACE_H

#include <stddef.h>
#include <stdint.h>

#if defined(TITANTRACE_BUILDING)
#define TITANTRACE_API __attribute__((visibility("default")))
#else
#define TITANTRACE_API __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The training step that begins now, for the whole process. Entries recorded from now on carry it. */
TITANTRACE_API void titan_step(int64_t step);

/* Opens a span ("forward", "optimizer") on the calling thread; spans nest. */
TITANTRACE_API void titan_span_begin(const char* name);

/* Closes the innermost open span of the calling thread; without one it does nothing. */
TITANTRACE_API void titan_span_end(void);

/* A moment worth a name ("checkpoint saved"). */
TITANTRACE_API void titan_event(const char* name);

/* A number at this moment ("loss", 2.31). Put the unit in the name: "tokens_per_s". */
TITANTRACE_API void titan_metric(const char* name, double value);

/* A fact about this process: a parallel dimension ("dp", "3"; "tp", "0"; "pp", "1") or a tag of the run. A later value for
 * the same key replaces the earlier one. */
TITANTRACE_API void titan_label(const char* key, const char* value);

/* Names a communicator ("dp", "tp.3") for the verdict. `nccl_comm` is the ncclComm_t; unknown ones are ignored. */
TITANTRACE_API void titan_comm_name(void* nccl_comm, const char* name);

/* Asks every rank of the job for a dump and waits, 10 s at most, until this rank's is written. `reason` is shown in it.
 * Returns 0 when it is written, -1 when it is not (no tracer, recording off, or out of time). Not signal-safe. */
TITANTRACE_API int titan_dump(const char* reason);

#ifdef __cplusplus
}
#endif

#if !defined(TITANTRACE_BUILDING)
/* A macro's own name inside its replacement is not replaced again, so the calls below are the functions. */
#define titan_step(step) (titan_step ? titan_step(step) : (void)0)
#define titan_span_begin(name) (titan_span_begin ? titan_span_begin(name) : (void)0)
#define titan_span_end() (titan_span_end ? titan_span_end() : (void)0)
#define titan_event(name) (titan_event ? titan_event(name) : (void)0)
#define titan_metric(name, value) (titan_metric ? titan_metric(name, value) : (void)0)
#define titan_label(key, value) (titan_label ? titan_label(key, value) : (void)0)
#define titan_comm_name(comm, name) (titan_comm_name ? titan_comm_name(comm, name) : (void)0)
#define titan_dump(reason) (titan_dump ? titan_dump(reason) : -1)
#endif

#endif /* TITANTRACE_H */

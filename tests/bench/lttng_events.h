/* The comparison: what the recorder keeps of one collective, as two LTTng-UST events of ten fields each. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER titan_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_events.h"

#if !defined(TITAN_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TITAN_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    titan_bench, enter,
    LTTNG_UST_TP_ARGS(uint64_t, comm, uint64_t, sequence, uint32_t, kind, uint64_t, count, uint32_t, datatype, uint32_t,
                      reduction, int32_t, peer, uint64_t, sendbuff, uint64_t, recvbuff, uint64_t, stream),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, comm, comm) lttng_ust_field_integer(uint64_t, sequence, sequence)
            lttng_ust_field_integer(uint32_t, kind, kind) lttng_ust_field_integer(uint64_t, count, count)
                lttng_ust_field_integer(uint32_t, datatype, datatype)
                    lttng_ust_field_integer(uint32_t, reduction, reduction) lttng_ust_field_integer(int32_t, peer, peer)
                        lttng_ust_field_integer_hex(uint64_t, sendbuff, sendbuff)
                            lttng_ust_field_integer_hex(uint64_t, recvbuff, recvbuff)
                                lttng_ust_field_integer_hex(uint64_t, stream, stream)))

LTTNG_UST_TRACEPOINT_EVENT(
    titan_bench, leave,
    LTTNG_UST_TP_ARGS(uint64_t, comm, uint64_t, sequence, uint64_t, group, uint32_t, group_index, uint32_t, comm_rank,
                      int32_t, device, uint32_t, thread, int64_t, step, uint32_t, span, int32_t, result),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, comm, comm) lttng_ust_field_integer(uint64_t, sequence, sequence)
            lttng_ust_field_integer(uint64_t, group, group) lttng_ust_field_integer(uint32_t, group_index, group_index)
                lttng_ust_field_integer(uint32_t, comm_rank, comm_rank) lttng_ust_field_integer(int32_t, device, device)
                    lttng_ust_field_integer(uint32_t, thread, thread) lttng_ust_field_integer(int64_t, step, step)
                        lttng_ust_field_integer(uint32_t, span, span) lttng_ust_field_integer(int32_t, result, result)))

#endif

#include <lttng/tracepoint-event.h>

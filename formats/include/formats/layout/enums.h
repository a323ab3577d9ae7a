// The words of the record: every enumeration that is stored in a ring or a dump.
//
// The numbers are on disk: rows are only ever appended, a retired row stays. Names are the ones that the analyzer
// prints and that its JSON carries. One row here is the single home of a number and its name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace titan::format {

// The operation of a row of the collectives ring. CLASS says which fields of the entry have a meaning (see FORMAT.md):
//   collective  counted by the communicator's sequence number
//   rooted      a collective with a root in `peer`
//   p2p         counted per (communicator, peer, direction)
//   lifecycle   creates, changes or ends a communicator; carries the sequence number of the next collective
//   resource    belongs to a communicator, concerns no other rank's progress
//   X(number, identifier, "name", CLASS)
#define TITAN_OP_KINDS(X)                                    \
    X(1, kAllReduce, "all_reduce", collective)               \
    X(2, kReduce, "reduce", rooted)                          \
    X(3, kBroadcast, "broadcast", rooted)                    \
    X(4, kAllGather, "all_gather", collective)               \
    X(5, kReduceScatter, "reduce_scatter", collective)       \
    X(6, kAllToAll, "all_to_all", collective)                \
    X(7, kGather, "gather", rooted)                          \
    X(8, kScatter, "scatter", rooted)                        \
    X(9, kSend, "send", p2p)                                 \
    X(10, kRecv, "recv", p2p)                                \
    X(11, kPutSignal, "put_signal", p2p)                     \
    X(12, kSignal, "signal", p2p)                            \
    X(13, kWaitSignal, "wait_signal", resource)              \
    X(20, kCommInit, "comm_init", lifecycle)                 \
    X(21, kCommInitAll, "comm_init_all", lifecycle)          \
    X(22, kCommSplit, "comm_split", lifecycle)               \
    X(23, kCommShrink, "comm_shrink", lifecycle)             \
    X(24, kCommGrow, "comm_grow", lifecycle)                 \
    X(25, kCommFinalize, "comm_finalize", lifecycle)         \
    X(26, kCommDestroy, "comm_destroy", lifecycle)           \
    X(27, kCommAbort, "comm_abort", lifecycle)               \
    X(28, kCommRevoke, "comm_revoke", lifecycle)             \
    X(29, kCommSuspend, "comm_suspend", lifecycle)           \
    X(30, kCommResume, "comm_resume", lifecycle)             \
    X(31, kWindowRegister, "window_register", lifecycle)     \
    X(32, kWindowDeregister, "window_deregister", lifecycle) \
    X(33, kBufferRegister, "buffer_register", resource)      \
    X(34, kBufferDeregister, "buffer_deregister", resource)  \
    X(35, kDevCommCreate, "dev_comm_create", lifecycle)      \
    X(36, kDevCommDestroy, "dev_comm_destroy", lifecycle)    \
    X(37, kRedOpCreate, "redop_create", resource)            \
    X(38, kRedOpDestroy, "redop_destroy", resource)          \
    X(39, kBarrier, "barrier", collective)                   \
    X(40, kOtherCollective, "collective", collective)

enum class OpClass : uint8_t { none, collective, rooted, p2p, lifecycle, resource };

// ncclDataType_t, and 255 where the operation has none. Sizes are in bytes. X(number, identifier, "name", size_bytes)
#define TITAN_DATATYPES(X)              \
    X(0, kInt8, "int8", 1)              \
    X(1, kUint8, "uint8", 1)            \
    X(2, kInt32, "int32", 4)            \
    X(3, kUint32, "uint32", 4)          \
    X(4, kInt64, "int64", 8)            \
    X(5, kUint64, "uint64", 8)          \
    X(6, kFloat16, "float16", 2)        \
    X(7, kFloat32, "float32", 4)        \
    X(8, kFloat64, "float64", 8)        \
    X(9, kBfloat16, "bfloat16", 2)      \
    X(10, kFloat8e4m3, "float8e4m3", 1) \
    X(11, kFloat8e5m2, "float8e5m2", 1) \
    X(255, kNoDatatype, "none", 0)

// ncclRedOp_t up to avg. Handles of user-made operations are private to a rank, so they are stored as `premul_sum`, the
// only kind that NCCL can make. X(number, identifier, "name")
#define TITAN_REDUCTIONS(X)        \
    X(0, kSum, "sum")              \
    X(1, kProd, "prod")            \
    X(2, kMax, "max")              \
    X(3, kMin, "min")              \
    X(4, kAvg, "avg")              \
    X(5, kPremulSum, "premul_sum") \
    X(255, kNoReduction, "none")

// How NCCL carries out a collective: ncclAlgoToString and ncclProtoToString (src/collectives.cc), their numbers
// (src/include/plugin/nccl_tuner.h) + 1. X(number, identifier, "name")
#define TITAN_ALGORITHMS(X)                \
    X(0, kUnknown, "")                     \
    X(1, kTree, "tree")                    \
    X(2, kRing, "ring")                    \
    X(3, kCollnetDirect, "collnet_direct") \
    X(4, kCollnetChain, "collnet_chain")   \
    X(5, kNvls, "nvls")                    \
    X(6, kNvlsTree, "nvls_tree")           \
    X(7, kPat, "pat")
#define TITAN_PROTOCOLS(X) \
    X(0, kUnknown, "")     \
    X(1, kLl, "ll")        \
    X(2, kLl128, "ll128")  \
    X(3, kSimple, "simple")

// Progress of a call; it never goes back. X(number, identifier, "name", "for people")
#define TITAN_CALL_STATES(X)                                                   \
    X(0, kNone, "none", "nothing recorded")                                    \
    X(1, kEntered, "entered", "inside the NCCL call")                          \
    X(2, kGrouped, "grouped", "called inside a group that is not ended yet")   \
    X(3, kLaunching, "launching", "inside ncclGroupEnd")                       \
    X(4, kEnqueued, "enqueued", "handed to the GPU, device progress unknown")  \
    X(5, kPending, "pending", "handed to the GPU, not finished there")         \
    X(6, kStarted, "started", "running on the GPU")                            \
    X(7, kFinished, "finished", "finished on the GPU")                         \
    X(8, kFailed, "failed", "the call returned an error")                      \
    X(9, kReturned, "returned", "the call returned (nothing runs on the GPU)") \
    X(10, kCaptured, "captured", "recorded into a CUDA graph; runs when that is launched")

// Work that a program hands to a stream, beside NCCL's. X(number, identifier, "name")
#define TITAN_WORK_KINDS(X)              \
    X(1, kKernel, "kernel")              \
    X(2, kCopy, "copy")                  \
    X(3, kSet, "memory_set")             \
    X(4, kHostFunction, "host_function") \
    X(5, kEventRecord, "event_record")   \
    X(6, kEventWait, "event_wait")       \
    X(7, kGraphLaunch, "graph_launch")   \
    X(8, kValueWait, "value_wait")       \
    X(9, kValueWrite, "value_write")     \
    X(10, kMemory, "stream_ordered_memory")

// Methods of observing the progress of collectives on the device. X(number, identifier, "name of the setting")
#define TITAN_GPU_PROGRESS_METHODS(X) \
    X(0, kOff, "off")                 \
    X(1, kEvents, "events")           \
    X(2, kTiming, "timing")           \
    X(3, kWrites, "writes")

// The part of a collective that one NCCL channel does, as NCCL's profiler plugin interface reports it. X(number,
// identifier, "name")
#define TITAN_CHANNEL_ROLES(X)     \
    X(1, kKernelChannel, "kernel") \
    X(2, kProxySend, "send")       \
    X(3, kProxyRecv, "recv")

// State of that part. X(number, identifier, "name", "for people")
#define TITAN_CHANNEL_STATES(X)                                 \
    X(0, kNotStarted, "not_started", "not started")             \
    X(1, kRunning, "running", "running")                        \
    X(2, kDone, "done", "done")                                 \
    X(3, kWaitsForGpu, "waits_for_gpu", "waits for the GPU")    \
    X(4, kWaitsForPeer, "waits_for_peer", "waits for the peer") \
    X(5, kWaitsForNetwork, "waits_for_network", "waits for the network")

// X(number, identifier, "name")
#define TITAN_COMM_STATES(X)      \
    X(0, kUnused, "unused")       \
    X(1, kCreating, "creating")   \
    X(2, kLive, "live")           \
    X(3, kFinalized, "finalized") \
    X(4, kDestroyed, "destroyed") \
    X(5, kAborted, "aborted")     \
    X(6, kFailed, "failed")

// X(number, identifier, "name")
#define TITAN_MARKER_KINDS(X)      \
    X(1, kStep, "step")            \
    X(2, kSpanBegin, "span_begin") \
    X(3, kSpanEnd, "span_end")     \
    X(4, kEvent, "event")          \
    X(5, kMetric, "metric")        \
    X(6, kLabel, "label")          \
    X(7, kAttribute, "attribute")  \
    X(8, kError, "error")          \
    X(9, kStepTag, "step_tag")

// How values of a metric are joined, over time and over ranks. X(number, identifier, "name")
#define TITAN_METRIC_REDUCTIONS(X) \
    X(0, kNotTold, "")             \
    X(1, kNone, "none")            \
    X(2, kMean, "mean")            \
    X(3, kSum, "sum")              \
    X(4, kMin, "min")              \
    X(5, kMax, "max")              \
    X(6, kStd, "std")              \
    X(7, kLast, "last")

// X(number, identifier, "name")
#define TITAN_ATTRIBUTE_TYPES(X) \
    X(1, kText, "text")          \
    X(2, kInteger, "integer")    \
    X(3, kDouble, "double")

// Reasons to write a dump. X(number, identifier, "name")
#define TITAN_DUMP_REASONS(X)     \
    X(1, kSignal, "signal")       \
    X(2, kTimeout, "timeout")     \
    X(3, kAbort, "abort")         \
    X(4, kCrash, "crash")         \
    X(5, kApi, "api")             \
    X(6, kExit, "exit")           \
    X(7, kPeer, "peer")           \
    X(8, kCollected, "collected") \
    X(9, kRequest, "request")     \
    X(10, kEnd, "end")            \
    X(11, kStandstill, "standstill")

// X(number, identifier, "name")
#define TITAN_PROCESS_STATES(X) \
    X(0, kStarting, "starting") \
    X(1, kRunning, "running")   \
    X(2, kExited, "exited")     \
    X(3, kCrashed, "crashed")

// Records that were lost, counted in the ring header. X(number, identifier, "name", "sentence for the user, with the
// remedy")
#define TITAN_LOSSES(X)                                                                                               \
    X(0, kLateUpdates, "late_updates",                                                                                \
      "completions of calls whose entry had already been overwritten; raise TITANTRACE_COLLECTIVES")                  \
    X(1, kCommunicatorsUntracked, "communicators_untracked",                                                          \
      "communicators created when the table was full; their calls carry no identity")                                 \
    X(2, kThreadsUntracked, "threads_untracked",                                                                      \
      "threads that found the thread table full; what they are blocked in is unknown")                                \
    X(3, kStringsDropped, "strings_dropped", "names that found the string table full; they are shown as empty")       \
    X(4, kP2pUncounted, "p2p_uncounted", "point-to-point calls without a counter (table full); they are not matched") \
    X(5, kProgressSkipped, "progress_skipped",                                                                        \
      "collectives whose device progress was not observed (no free event, or the driver refused)")                    \
    X(6, kSpansTooDeep, "spans_too_deep", "spans nested deeper than recorded")                                        \
    X(7, kUnknownCommunicators, "unknown_communicators", "calls on communicators that were created out of our sight") \
    X(8, kGraphsUntracked, "graphs_untracked",                                                                        \
      "CUDA graphs with collectives that found the table full; their launches are not expanded")                      \
    X(9, kRangesDropped, "ranges_dropped", "NVTX ranges and marks above the limit; raise TITANTRACE_NVTX")            \
    X(10, kChannelsDropped, "channels_dropped", "channel reports of NCCL that found no room")                         \
    X(11, kCallSitesDropped, "call_sites_dropped", "calls whose call site found its table full")                      \
    X(12, kSpansDropped, "spans_dropped", "spans of tasks that found the table of open spans full")                   \
    X(13, kSpansUnmatched, "spans_unmatched", "ends of spans that were not open: ended twice, or by another process") \
    X(14, kMarkerSitesDropped, "marker_sites_dropped", "markers whose place in the program found its table full")     \
    X(15, kLabelsDropped, "labels_dropped", "labels that found their table full; their markers tell them for a while")

// CollectiveEntry::flags.
enum CollectiveFlags : uint16_t {
    kInGroup = 1 << 0,          // called between ncclGroupStart and ncclGroupEnd
    kCaptured = 1 << 1,         // its stream was being captured into a CUDA graph: it did not run then
    kNonblockingComm = 1 << 2,  // the communicator was configured non-blocking
    kConfigCall = 1 << 3,       // the *Config form of the call (NCCL 2.31)
    kReplayed = 1 << 5,         // run by the launch of the graph that it was captured into
    kFromPlugin = 1 << 6,       // seen by NCCL's profiler plugin interface alone: no call of ours stood in front
    kMarkedByWrites = 1 << 7,   // its stream writes into the launch marks
};

template <typename E>
struct EnumRow {
    E value;
    std::string_view name;
};

// Numbers rise, so that none is there twice, and no two rows share a name.
template <typename Rows>
constexpr bool is_sound(const Rows& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
        for (size_t later = i + 1; later < rows.size(); ++later) {
            if (rows[later].value <= rows[i].value || rows[later].name == rows[i].name) {
                return false;
            }
        }
    }
    return true;
}

#define TITAN_ENUMERATOR(number, id, ...) id = number,
#define TITAN_ENUM_ROW(number, id, name, ...) {Self::id, name},
#define TITAN_DECLARE_ENUM(Type, underlying, TABLE)                                         \
    enum class Type : underlying { TABLE(TITAN_ENUMERATOR) };                               \
    namespace detail {                                                                      \
    struct Type##Rows {                                                                     \
        using Self = Type;                                                                  \
        static constexpr auto rows = std::to_array<EnumRow<Type>>({TABLE(TITAN_ENUM_ROW)}); \
        static_assert(is_sound(rows), "a number or a name of " #TABLE " is there twice");   \
    };                                                                                      \
    }                                                                                       \
    constexpr const auto& rows_of(Type) { return detail::Type##Rows::rows; }

TITAN_DECLARE_ENUM(OpKind, uint16_t, TITAN_OP_KINDS)
TITAN_DECLARE_ENUM(Datatype, uint8_t, TITAN_DATATYPES)
TITAN_DECLARE_ENUM(Reduction, uint8_t, TITAN_REDUCTIONS)
TITAN_DECLARE_ENUM(Algorithm, uint8_t, TITAN_ALGORITHMS)
TITAN_DECLARE_ENUM(Protocol, uint8_t, TITAN_PROTOCOLS)
TITAN_DECLARE_ENUM(CallState, uint8_t, TITAN_CALL_STATES)
TITAN_DECLARE_ENUM(CommState, uint8_t, TITAN_COMM_STATES)
TITAN_DECLARE_ENUM(MarkerKind, uint8_t, TITAN_MARKER_KINDS)
TITAN_DECLARE_ENUM(MetricReduction, uint8_t, TITAN_METRIC_REDUCTIONS)
TITAN_DECLARE_ENUM(AttributeType, uint8_t, TITAN_ATTRIBUTE_TYPES)
TITAN_DECLARE_ENUM(DumpReason, uint8_t, TITAN_DUMP_REASONS)
TITAN_DECLARE_ENUM(ProcessState, uint32_t, TITAN_PROCESS_STATES)
TITAN_DECLARE_ENUM(Loss, uint32_t, TITAN_LOSSES)
TITAN_DECLARE_ENUM(WorkKind, uint8_t, TITAN_WORK_KINDS)
TITAN_DECLARE_ENUM(GpuProgressMethod, uint32_t, TITAN_GPU_PROGRESS_METHODS)
TITAN_DECLARE_ENUM(ChannelRole, uint8_t, TITAN_CHANNEL_ROLES)
TITAN_DECLARE_ENUM(ChannelState, uint8_t, TITAN_CHANNEL_STATES)

#undef TITAN_ENUMERATOR
#undef TITAN_ENUM_ROW
#undef TITAN_DECLARE_ENUM

// The name of a stored value, or an empty view for a number that this build does not know (a newer writer, or damage).
template <typename E>
constexpr std::string_view name_of(E value) {
    for (const auto& row : rows_of(value)) {
        if (row.value == value) {
            return row.name;
        }
    }
    return {};
}

constexpr OpClass class_of(OpKind kind) {
    switch (kind) {
#define TITAN_CLASS_CASE(number, id, name, cls) \
    case OpKind::id: return OpClass::cls;
        TITAN_OP_KINDS(TITAN_CLASS_CASE)
#undef TITAN_CLASS_CASE
    }
    return OpClass::none;
}

// Collectives proper: the ones that a communicator's sequence number counts.
constexpr bool is_collective(OpKind kind) {
    return class_of(kind) == OpClass::collective || class_of(kind) == OpClass::rooted;
}
// A collective, a send or a receive; not what makes, ends or registers something.
constexpr bool moves_data(OpKind kind) { return is_collective(kind) || class_of(kind) == OpClass::p2p; }

// Bytes per element, 0 for "none" and for numbers this build does not know.
constexpr uint32_t datatype_size_bytes(Datatype datatype) {
    switch (datatype) {
#define TITAN_SIZE_CASE(number, id, name, size) \
    case Datatype::id: return size;
        TITAN_DATATYPES(TITAN_SIZE_CASE)
#undef TITAN_SIZE_CASE
    }
    return 0;
}

constexpr size_t kLossCount = detail::LossRows::rows.size();
static_assert(static_cast<size_t>(detail::LossRows::rows.back().value) == kLossCount - 1,
              "losses are counted by number");

}  // namespace titan::format

// The ring file, to the byte. FORMAT.md is the prose twin of this header; change both together.
//
// One file per process: a header of one page, then regions. A region is a ring (tickets count up for ever, the slot is
// ticket % count), a table (fixed rows, published one by one) or a heap (bytes). Everything is little-endian and
// naturally aligned. Offsets and strides come from the descriptors in the header: a reader trusts those, after clamping
// them to the file, and ignores tails that it does not know. Any byte may be hostile or torn: copy, check, then use.
//
// Times are ticks of the clock that the header names (`ClockSource`); the two anchors convert them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::format {

inline constexpr uint64_t kRingMagic = 0x474E524E41544954;  // "TITANRNG"
inline constexpr uint16_t kRingMajor = 1;                   // a reader refuses another major
inline constexpr uint16_t kRingMinor = 0;                   // a higher one appends, and moves nothing
inline constexpr uint32_t kEndianTag = 0x01020304;
inline constexpr uint32_t kHeaderBytes = 4096;
inline constexpr uint32_t kMaxRegions = 12;
// Tables without a cursor, whose rows say themselves whether they are used, and one ring.
inline constexpr uint32_t kMoreRegions = 8;
inline constexpr uint32_t kMaxLosses = 32;
inline constexpr uint64_t kNoSequence = UINT64_MAX;  // "not counted" in any sequence or counter field
inline constexpr uint32_t kNoIndex = UINT32_MAX;     // "none" in any table index field
inline constexpr int64_t kNoStep = -1;
inline constexpr uint32_t kSpanDepth = 8;

enum class ClockSource : uint32_t { kMonotonic = 1, kTsc = 2 };

enum class RegionKind : uint32_t {
    kNone = 0,
    kCollectives = 1,    // ring of CollectiveEntry
    kCudaCalls = 2,      // ring of CudaCallEntry
    kMarkers = 3,        // ring of MarkerEntry
    kCommunicators = 4,  // table of CommunicatorRecord
    kThreads = 5,        // table of ThreadRecord
    kStringIndex = 6,    // table of StringRecord; a string's id is its index + 1, id 0 is the empty string
    kStringHeap = 7,     // bytes
    kP2pCounters = 8,    // heap of uint64_t, see CommunicatorRecord::p2p_offset_bytes
    kStreamWork = 9,     // ring of StreamWorkEntry
    kLaunchMarks = 10,   // table of LaunchMarks, written by the device
    kChannels = 11,      // ring of ChannelEntry
    kCallSites = 12,     // bytes: call_sites_layout.h; only where they are asked for
    kOpenSpans = 13,     // table of OpenSpanRecord
    kMarkerSites = 14,   // table of MarkerSiteRecord
    kLabels = 15,        // table of LabelRecord
    kHealth = 16,        // ring of HealthEntry
    kStackSamples = 17,  // bytes: two images of stacks_layout.h; only where they are asked for
};

inline constexpr uint32_t kRegionKinds = 18;  // one more than the highest kind

// Rings follow the slot protocol below.
constexpr bool is_ring(RegionKind kind) {
    return kind == RegionKind::kCollectives || kind == RegionKind::kCudaCalls || kind == RegionKind::kMarkers ||
           kind == RegionKind::kStreamWork || kind == RegionKind::kChannels || kind == RegionKind::kHealth;
}

struct RegionDescriptor {
    RegionKind kind;
    uint32_t stride_bytes;  // heap: 1
    uint64_t offset_bytes;  // offset from the start of the file
    uint64_t count;         // slots, rows, or bytes
    uint64_t reserved;
};
static_assert(sizeof(RegionDescriptor) == 32);

// Positions of one region, alone on its cache line because every record of that kind moves it.
struct RegionCursor {
    uint64_t head;  // ring: tickets handed out; table: rows handed out; heap: bytes handed out
    uint64_t reserved[7];
};
static_assert(sizeof(RegionCursor) == 64);

// One moment on three clocks. Written under a sequence: odd while being written.
struct ClockAnchor {
    uint64_t sequence;
    uint64_t ticks;
    uint64_t monotonic_ns;
    uint64_t realtime_ns;
};
static_assert(sizeof(ClockAnchor) == 32);

// Limits of global ranks and their number: larger values count as unknown, so that no arithmetic with ranks overflows.
constexpr int32_t plausible_rank(int32_t claimed) { return claimed < 0 || claimed > (1 << 24) ? -1 : claimed; }

// Launches under a budget are counted in steps, or in so many where no steps are marked.
inline constexpr uint32_t kUnmarkedUnitLaunches = 256;

struct RingHeader {
    uint64_t magic;  // written last: a file without it was never finished
    uint16_t major;
    uint16_t minor;
    uint32_t endian_tag;
    uint32_t header_bytes;
    uint32_t region_count;
    uint64_t file_bytes;
    char writer[32];  // "titantrace 0.1.0"

    // Identity. Strings are NUL-terminated and cut to fit.
    int32_t pid;
    int32_t uid;
    uint64_t pid_start_ticks;  // field 22 of /proc/PID/stat: tells a reused pid
    uint64_t pid_namespace;    // inode of /proc/PID/ns/pid: pids compare only inside one namespace
    int32_t rank;              // global rank, -1 unknown
    int32_t world_size;        // -1 unknown
    int32_t local_rank;        // -1 unknown
    int32_t attempt;           // restart count of the job, 0 first
    char host[64];
    char boot_id[40];
    char run[128];
    char executable[128];

    // Times.
    ClockSource clock_source;
    uint32_t fatal_thread;      // kCrashed: kernel id of the thread that got the signal, 0 unknown
    uint64_t ticks_per_second;  // estimate at start; the two anchors are better when they lie apart
    ClockAnchor first_anchor;
    ClockAnchor last_anchor;
    uint64_t heartbeat_ticks;  // moved by the tracer's own thread about once a second

    // State of the process.
    ProcessState state;
    int32_t fatal_signal;  // only for kCrashed
    int64_t step;          // newest titan_step(), kNoStep before the first
    uint64_t step_ticks;
    uint64_t dumps_written;
    uint64_t timeout_ns;             // TITANTRACE_TIMEOUT_S in force, 0 = never
    GpuProgressMethod gpu_progress;  // (later) method in force, kOff until the device is observed
    uint32_t nccl_version;           // ncclGetVersion(), 0 unknown
    int32_t driver_version;          // cuDriverGetVersion(), 0 unknown
    uint32_t gpu_progress_sample;    // one step of n (unmarked: one launch) is observed; 0 and 1: every one
    uint64_t groups;                 // NCCL groups opened so far
    uint64_t losses[kMaxLosses];     // indexed by format::Loss

    RegionDescriptor regions[kMaxRegions];

    // Requests for a dump from outside, see FORMAT.md. The process counts its dumps, so that the requester knows which
    // one is the answer: the first that begins after the request.
    uint64_t dump_request;     // (outside) a value that was not there before asks; 0 nobody has
    uint64_t dumps_begun;      // (later)
    uint64_t dumps_ended;      // (later) written or not
    uint32_t dump_answers;     // (later) 1: someone looks at dump_request
    uint32_t dumps_kept;       // TITANTRACE_KEEP
    char dump_directory[768];  // TITANTRACE_DIR, absolute; empty when too long
    char last_dump[896];  // (later) path of the newest dump; empty: it could not be written, or the path is too long
    // (later) How the program was told to end, and how it left by itself.
    uint64_t end_ticks;        // time of end_signal
    int32_t end_signal;        // SIGTERM or SIGINT, as it came first; 0 none came
    int32_t end_sender;        // pid of who sent it, 0 the kernel (a terminal's Ctrl-C)
    uint64_t exit_ticks;       // time of kExited, 0 unknown
    int32_t exit_status_next;  // exit status + 1, 0 unknown
    uint32_t reserved32;
    RegionDescriptor more_regions[kMoreRegions];
    // How launches are observed, where nobody chose a method (TITANTRACE_BUDGET).
    uint32_t gpu_budget;         // millionths of the time; 0: a method was chosen
    uint32_t gpu_full_of;        // (later) one step of n has stream writes, 0 none; the launches of others have events
    uint32_t gpu_light_of;       // (later) and of these one of n
    uint32_t gpu_unit_launches;  // (later) launches of a step, the mean of the last ones; 0 unknown
    uint64_t gpu_unit_ns;        // (later) how long it took
    RegionCursor health_cursor;  // of the ring among `more_regions`
    RegionCursor cursors[kMaxRegions];  // same order as `regions`
};
static_assert(sizeof(RingHeader) == kHeaderBytes);
static_assert(offsetof(RingHeader, cursors) % 64 == 0);
static_assert(offsetof(RingHeader, dump_request) == 1256);
static_assert(offsetof(RingHeader, end_ticks) == 2952);
static_assert(offsetof(RingHeader, more_regions) == 2984);
static_assert(offsetof(RingHeader, gpu_budget) == 3240);
static_assert(offsetof(RingHeader, health_cursor) == 3264);

// Calls visit(descriptor, cursor) for every region of a header; the cursor is null where the region has none.
template <typename Header, typename Visit>
constexpr void for_each_region(Header& header, Visit&& visit) {
    const uint32_t count = header.region_count < kMaxRegions ? header.region_count : kMaxRegions;
    for (uint32_t i = 0; i < count; ++i) {
        visit(header.regions[i], &header.cursors[i]);
    }
    for (auto& region : header.more_regions) {
        if (region.kind != RegionKind::kNone) {
            visit(region, region.kind == RegionKind::kHealth ? &header.health_cursor : nullptr);
        }
    }
}

// RingHeader::dump_request: a number that nobody used before, above its lowest bits. The lower bits say who asks, and
// the lowest whether the job's other nodes are to be asked, too.
constexpr uint64_t make_dump_request(uint32_t random, int32_t pid, bool other_nodes) {
    return uint64_t{random} << 32 | (uint64_t{static_cast<uint32_t>(pid)} << 1 & 0xffffffff) | (other_nodes ? 1 : 0);
}
constexpr int32_t asker_of(uint64_t dump_request) { return static_cast<int32_t>((dump_request & 0xffffffff) >> 1); }
constexpr bool asks_other_nodes(uint64_t dump_request) { return (dump_request & 1) != 0; }

// Slot protocol of every ring: `slot_sequence` is 0 in a slot never used, 2 * ticket + 1 while ticket is being written
// and 2 * ticket + 2 once it is complete. Fields marked (later) may change after that; each is one aligned store.
struct CollectiveEntry {
    uint64_t slot_sequence;
    uint64_t communicator_id;  // global; 0 unknown
    uint64_t sequence;         // collectives: n-th of the communicator, from 0. p2p: n-th with this peer and direction.
                               // lifecycle: the communicator's next collective. kNoSequence where not counted
    uint64_t count;            // elements, as passed
    uint64_t send_buffer;      // address, 0 where there is none
    uint64_t receive_buffer;
    uint64_t stream;  // replayed: the stream that the graph was launched on
    uint64_t group;   // n-th group of the process from 1, 0 outside groups
    int64_t step;
    uint64_t entered_ticks;
    uint64_t returned_ticks;      // (later) of the call, or of the ncclGroupEnd that launched it; 0 = not yet
    uint64_t gpu_started_ticks;   // (later) 0 unknown
    uint64_t gpu_finished_ticks;  // (later) when the completion was seen, 0 = not yet or unknown
    uint64_t related_id;          // lifecycle: global id of the communicator being created; else 0
    uint32_t communicator;        // row of the communicators table, kNoIndex unknown
    uint32_t thread;              // kernel thread id
    uint32_t span;                // string id of the innermost span, 0 none
    uint32_t stack;               // row of its call site + 1, see call_sites_layout.h; 0 none
    int32_t peer;          // communicator rank of the root or the peer, -1 where there is none; kFromPlugin: (later)
    int32_t comm_rank;     // this member's rank in the communicator, -1 unknown
    int32_t device;        // -1 unknown
    uint32_t group_index;  // n-th call of its group, from 0
    OpKind kind;
    Datatype datatype;
    Reduction reduction;
    uint16_t flags;   // CollectiveFlags
    CallState state;  // (later)
    uint8_t reserved8;
    int32_t result;              // (later) ncclResult_t, -1 = not returned yet
    int32_t color;               // comm_split
    uint64_t launch;             // (later) its launch + 1: the row of the launch marks is (launch - 1) % rows; 0 none
    uint64_t replay;             // replayed: n-th launch of the process' graphs, from 1; 0 otherwise
    uint32_t graph;              // captured: number of the capture; replayed: of the capture it came from; 0 none
    uint16_t channels;           // (later) channels that NCCL runs it on, 0 unknown
    uint16_t channels_started;   // (later) kernel channels seen to start
    uint16_t channels_finished;  // (later) kernel channels seen to stop
    uint16_t plugin_launches;    // (later) launches of it that NCCL's profiler plugin interface reported
    Algorithm algorithm;         // (later) of its newest launch, as that interface told
    Protocol protocol;           // (later) likewise
    uint16_t reserved16;
};
static_assert(sizeof(CollectiveEntry) == 192);

// How the device's progress is observed of this call; kOff: not at all.
inline GpuProgressMethod marks_of(const RingHeader& header, const CollectiveEntry& entry) {
    if (entry.launch == 0 || header.gpu_budget == 0) {
        return entry.launch == 0 ? GpuProgressMethod::kOff : header.gpu_progress;
    }
    return (entry.flags & kMarkedByWrites) != 0 ? GpuProgressMethod::kWrites : GpuProgressMethod::kEvents;
}
static_assert(offsetof(CollectiveEntry, launch) == 160);
static_assert(offsetof(CollectiveEntry, channels) == 180);
static_assert(offsetof(CollectiveEntry, communicator) == 112);
static_assert(offsetof(CollectiveEntry, kind) == 144);
static_assert(offsetof(CollectiveEntry, state) == 150);
static_assert(offsetof(CollectiveEntry, result) == 152);

struct CudaCallEntry {
    uint64_t slot_sequence;
    uint64_t entered_ticks;
    uint64_t returned_ticks;  // (later) 0 = still inside
    uint64_t object;          // stream, event or address the call is about
    int64_t step;
    uint32_t name;  // string id of the function's name
    uint32_t thread;
    int32_t result;  // (later) CUresult or cudaError_t, -1 = not returned yet
    uint32_t span;
    uint64_t reserved;
};
static_assert(sizeof(CudaCallEntry) == 64);

enum StreamWorkFlags : uint8_t {
    kWorkCaptured = 1 << 0,  // recorded into a CUDA graph: it did not run then
};

// Work for a stream, written before the call that hands it over. Cross-stream order: an event wait follows the newest
// record of the same event before it.
struct StreamWorkEntry {
    uint64_t slot_sequence;
    uint64_t entered_ticks;
    uint64_t stream;
    uint64_t object;  // event, executable graph, or address; kernels: the function's handle
    uint64_t amount;  // copies and sets: bytes; kernels: thread blocks; graph launches: replay number; else 0
    uint64_t reserved;
    uint32_t name;  // string id: the kernel's name where known, else the CUDA function's
    uint32_t thread;
    uint32_t call;  // string id of the CUDA function's name
    WorkKind kind;
    uint8_t flags;  // StreamWorkFlags
    uint16_t reserved16;
};
static_assert(sizeof(StreamWorkEntry) == 64);

// The device's own report of one launch (one NCCL call, one group on one stream, one graph launch): the stream writes
// the launch's number + 1 when it reaches the launch and when it has finished it. A row that holds another number says
// nothing about this launch. Method `writes` only.
struct LaunchMarks {
    uint64_t started;
    uint64_t finished;
};
static_assert(sizeof(LaunchMarks) == 16);

// One channel's work for one collective, from NCCL's profiler plugin interface.
struct ChannelEntry {
    uint64_t slot_sequence;
    uint64_t collective;  // ticket of its entry + 1, 0 unknown
    uint64_t started_ticks;
    uint64_t updated_ticks;  // (later)
    uint32_t steps;          // proxies: steps to do, 0 unknown
    uint32_t steps_done;     // (later)
    int32_t peer;            // communicator rank, -1 none
    uint16_t channel;
    ChannelRole role;
    ChannelState state;           // (later)
    uint64_t device_started_ns;   // kernel channels: on the GPU's own clock, 0 unknown
    uint64_t device_finished_ns;  // (later)
};
static_assert(sizeof(ChannelEntry) == 64);

// What MarkerEntry::detail says of a span.
enum SpanDetail : uint8_t {
    kSpanOfTask = 1 << 0,  // it may interleave with others of its thread: not on the thread's stack of spans
};

struct MarkerEntry {
    uint64_t slot_sequence;
    uint64_t ticks;  // moment of it; spans and events may be told afterwards
    // step: the number; metric: the bits of a double; span_begin: id of the span that it lies in; span_end: ticks of
    // its begin (0 unknown); attribute: the number, or the bits of a double
    uint64_t value;
    int64_t step;
    uint32_t name;  // string id of the span, event, metric, tag, or key
    uint32_t text;  // string id: value of a label or attribute, message of an error
    uint32_t thread;
    MarkerKind kind;
    uint8_t depth;  // nesting of the span, 0 outermost
    uint8_t
        detail;  // spans: SpanDetail; metric: MetricReduction; attribute: AttributeType; step: 1 has a relative step
    uint8_t reserved8;
    uint32_t span;   // spans: the span's id; event: its own; attribute, error: of the span or event that it is about;
                     // metric: of the thread's innermost span; 0 none
    uint32_t site;   // row of the marker sites + 1, 0 unknown
    uint64_t extra;  // span_begin, event: number of the task, 0 the thread itself; metric: the bits of its weight;
                     // step: the relative step
};
static_assert(sizeof(MarkerEntry) == 64);
static_assert(offsetof(MarkerEntry, span) == 48);

// A span that is open now; its row is id % rows.
struct OpenSpanRecord {
    uint32_t id;     // n-th span of the process from 1; written last; 0: nothing is open here
    uint32_t taken;  // the writer's own
    uint64_t begin_ticks;
    uint64_t task;    // as in MarkerEntry::extra
    uint32_t name;    // string id
    uint32_t parent;  // id of the span that it lies in, 0 none
    uint32_t thread;  // that began it
    uint32_t site;    // as in MarkerEntry
};
static_assert(sizeof(OpenSpanRecord) == 40);

// A place in the program that calls markers. Open addressing by key.
struct MarkerSiteRecord {
    uint64_t key;    // 0 free; native code: where execution goes on, behind the call; told: kToldSite and a hash
    uint32_t place;  // (later) string id; told: "FILE:LINE FUNCTION"; native: "0xOFFSET BUILDID MODULE"; 0 not yet
    uint32_t reserved32;
};
static_assert(sizeof(MarkerSiteRecord) == 16);
inline constexpr uint64_t kToldSite = uint64_t{1} << 63;

// The newest value of a label, which its marker does not outlive. Open addressing by key.
struct LabelRecord {
    uint64_t key;    // string id; 0 free
    uint64_t ticks;  // (later) moment of the marker
    uint32_t text;   // (later) string id of the value, 0 not yet
    uint32_t site;   // (later) as in MarkerEntry
};
static_assert(sizeof(LabelRecord) == 24);

// A reading of the machine that differs from the one before it, or has been the same for long. Each entry stands for
// itself: entries before it may be overwritten.
struct HealthEntry {
    uint64_t slot_sequence;
    uint64_t ticks;        // moment of the reading
    uint64_t since_ticks;  // first reading of this value in a row
    int64_t since_step;    // the process' step then, kNoStep before its first
    double value;
    double first_value;  // of the process, for counters that began before it
    uint32_t name;       // string id: what was read, with its unit ("gpu.0.power_w")
    uint32_t reserved32;
};
static_assert(sizeof(HealthEntry) == 56);

enum CommunicatorFlags : uint8_t {
    kCommNonblocking = 1 << 0,
    kCommScalable = 1 << 1,         // ncclCommInitRankScalable
    kCommIdentityGuessed = 1 << 2,  // its creation was not seen; the id is private to this process
};

// A row is complete once `published` is non-zero (written last). Fields marked (later) may change.
struct CommunicatorRecord {
    uint32_t published;
    OpKind origin;              // the call that made it (kCommInit .. kCommGrow)
    CommState state;            // (later)
    uint8_t flags;              // CommunicatorFlags
    uint64_t id;                // global: equal on all members
    uint64_t parent_id;         // split, shrink and grow; 0 none
    uint64_t alias_id;          // grow: id that the new ranks know it by, where this process knows it; 0 none
    uint64_t pointer;           // (later) ncclComm_t, 0 until NCCL has handed it out. Reused by NCCL over time
    uint64_t next_sequence;     // (later) collectives issued so far
    uint64_t finished;          // (later) sequence number of the newest collective seen finished, + 1
    uint64_t created_ticks;     // creation call entered
    uint64_t ready_ticks;       // (later) known to be usable, 0 = not yet
    uint64_t closed_ticks;      // (later) destroy or abort entered, 0 = not yet
    uint64_t p2p_offset_bytes;  // offset into the p2p heap: uint64_t sent[size], received[size]; kNoSequence none
    int32_t size;               // (later) members, -1 unknown
    int32_t rank;               // (later) communicator rank of this member, -1 unknown
    int32_t device;             // (later) -1 unknown
    int32_t color;              // split
    int32_t key;                // split
    uint32_t ordinal;           // n-th child of this kind of its parent, from 0
    uint32_t excluded;          // shrink: string id of the sorted parent ranks left out, "1,5"
    uint32_t name;              // (later) string id: titan_comm_name() or the config's commName
    int32_t create_result;      // (later) ncclResult_t of the creation, -1 = still inside
    int32_t async_error;        // (later) newest result of ncclCommGetAsyncError that was an error
    int32_t parent_rank;        // this member's rank in the parent, -1 none
    uint32_t create_thread;
    uint64_t nccl_hash;  // (later) NCCL's own hash of it, where its profiler plugin interface told; 0 unknown
    uint64_t reserved[6];
};
static_assert(sizeof(CommunicatorRecord) == 192);

struct ThreadRecord {
    uint32_t thread;         // kernel thread id, 0 = free row
    uint32_t call;           // string id of the function it is inside, 0 = in the program's own code
    uint64_t entered_ticks;  // start of that call
    uint64_t object;         // communicator id, stream or event of that call, or of the newest query
    uint64_t ticket;         // entry of that call in its ring + 1, 0 none
    uint64_t group;          // open or ending group, 0 none
    uint32_t group_depth;
    uint32_t last_call;          // string id of the newest finished call, queries included
    uint64_t last_call_ticks;    // when it returned
    uint32_t span_depth;         // may exceed kSpanDepth: deeper ones are not named
    uint32_t spans[kSpanDepth];  // string ids, outermost first
    uint32_t polls;              // queries since the newest other call of NCCL or CUDA: above 0 it may be polling
    uint64_t span_begin_ticks[kSpanDepth];
    char name[16];      // the thread's own name
    uint64_t launches;  // pieces of stream work handed over, recorded or not
    uint64_t queries;   // cudaEventQuery, cudaStreamQuery and the like
};
static_assert(sizeof(ThreadRecord) == 192);

struct StringRecord {
    uint64_t hash;          // 0 = free row
    uint32_t offset_bytes;  // offset into the heap
    uint32_t length_bytes;  // written last + 1: 0 = not published yet
};
static_assert(sizeof(StringRecord) == 16);

}  // namespace titan::format

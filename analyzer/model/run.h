// The loaded run as plain values: its processes, their communicators and calls. Everything after loading is a function
// of a Run. Entries are compact because a run has millions of them; images of rings are not kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coverage.h"
#include "formats/layout/enums.h"
#include "formats/layout/ring_layout.h"
#include "history.h"
#include "host/presence.h"
#include "stack_samples.h"
#include "testimony.h"
#include "warning.h"

namespace titan::analyzer {

using format::CallState;
using format::CommState;
using format::Datatype;
using format::kNoIndex;
using format::kNoSequence;
using format::OpKind;
using format::Reduction;
using format::WorkKind;

// GPU progress of a call, from the most informative of three sources: the entry's state and times, the marks that the
// stream itself writes, and the kernel channels that NCCL's profiler plugin interface saw.
enum class DeviceState : uint8_t {
    kUnknown,
    kNotReached,    // the stream has not come to it
    kGraphStarted,  // the graph launch that it is part of has started; how far that is, nobody tells
    kStarted,
    kFinished,
};

// One NCCL call. Times are CLOCK_REALTIME of its host, 0 unknown or not yet.
struct Entry {
    uint64_t sequence = 0;
    uint64_t count = 0;
    uint64_t stream = 0;
    int64_t entered_ns = 0;
    int64_t returned_ns = 0;
    int64_t started_ns = 0;  // time on the GPU
    int64_t finished_ns = 0;
    uint32_t row = kNoIndex;  // index into Process::members
    uint32_t group = 0;
    uint32_t thread = 0;
    uint32_t span = 0;    // index into Process::texts
    uint32_t site = 0;    // texts: where the program made the call, such as "train.py:212 in step"
    uint32_t shape = 0;   // texts: the arguments in the recorder's own words, where they say more than the fields
    uint32_t agreed = 0;  // other arguments that members must agree on, as a number that means the same in all; 0 none
    int32_t step = -1;
    int32_t peer = -1;  // root or peer, only where the operation has one
    int32_t result = -1;
    uint32_t graph = 0;         // captured: number of the capture; replayed: of the capture it came from
    uint32_t replay = 0;        // replayed: n-th graph launch of the process, from 1
    uint32_t place = kNoIndex;  // index in Process::history
    OpKind kind{};
    Datatype datatype = Datatype::kNoDatatype;
    Reduction reduction = Reduction::kNoReduction;  // only where the operation reduces
    CallState state = CallState::kNone;
    DeviceState device = DeviceState::kUnknown;
    bool captured : 1 = false;
    bool arguments_lost : 1 = false;  // part of it was overwritten: that it was called is known, not with what
    bool number_guessed = false;      // point-to-point calls: counted from a beginning that is lost
    int32_t recorder_number = -1;     // PyTorch's number of a send or receive, which counts all of the rank
};
static_assert(sizeof(Entry) == 120);

// Work that the program handed to a stream beside NCCL's calls, unless it is known to be done. Ring order.
struct StreamWork {
    uint64_t stream = 0;
    uint64_t object = 0;  // event, executable graph or address
    uint64_t amount = 0;  // bytes, thread blocks, or the number of the replay
    int64_t entered_ns = 0;
    uint32_t name = 0;  // texts
    uint32_t call = 0;
    uint32_t record = kNoIndex;  // event wait: the record that it waits for, in Process::work
    WorkKind kind{};
    bool satisfied = false;  // event wait: that record is known to be done
};
static_assert(sizeof(StreamWork) == 48);

// One channel's work for an unfinished collective.
struct ChannelWork {
    uint32_t entry = kNoIndex;  // index into Process::entries
    uint32_t steps = 0;
    uint32_t steps_done = 0;
    int32_t peer = -1;  // communicator rank
    uint16_t channel = 0;
    format::ChannelRole role{};
    format::ChannelState state{};
};

// Kernel channels of an unfinished collective, as counted by the plugin.
struct ChannelCounts {
    uint32_t entry = kNoIndex;
    uint16_t channels = 0;
    uint16_t started = 0;
    uint16_t finished = 0;
    format::Algorithm algorithm{};
    format::Protocol protocol{};
};

// The times when a process came to one call of a communicator and left it: the basis of timing. A bounded sample that
// all members choose alike (decode_timing.cpp). Times are CLOCK_REALTIME of the host, 0 unknown.
struct Arrival {
    uint64_t sequence = 0;
    uint64_t bytes = 0;  // count times size, as passed
    int64_t entered_ns = 0;
    int64_t started_ns = 0;  // time on the GPU
    int64_t ended_ns = 0;    // time on the GPU
    int64_t waited_ns =
        0;  // running sum until the arrival: in NCCL's calls on the GPU; without its times, in synchronisations
    // Used if only durations are exact (Coverage::moments).
    int64_t held_ns = 0;   // running sum of those of the communicator's barrier-like calls, this one included
    uint32_t untimed = 0;  // running count of the process' calls without one
    int32_t step = -1;
    OpKind kind{};

    int64_t arrived_ns() const { return started_ns != 0 ? started_ns : entered_ns; }
};
static_assert(sizeof(Arrival) == 72);

// The host's time in one step, from its marker to the next one.
struct StepProfile {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t sync_ns = 0;      // blocked until the GPU is through
    int64_t copy_ns = 0;      // inside copies that block
    int64_t memory_ns = 0;    // inside calls that allocate or free
    int64_t load_ns = 0;      // inside calls that load code: modules, libraries
    int64_t nccl_ns = 0;      // inside NCCL's calls
    int64_t gap_ns = 0;       // longest time without any call, 0 unknown
    uint32_t launches = 0;    // kernels, copies and graphs, 0 none or unknown
    uint32_t first_span = 0;  // its spans in Process::step_spans
    uint32_t span_count = 0;
    uint32_t first_call = 0;    // place of its first call in Process::history
    uint32_t memory_calls = 0;  // calls that allocate or free
    int32_t step = -1;

    int64_t length_ns() const { return end_ns - begin_ns; }
};
static_assert(sizeof(StepProfile) == 88);

// When a call came and went: what a replay of the steps needs, of all calls that are kept (Process::call_times). Times
// are in units of 64 ns, so that they last for minutes.
struct CallTimes {
    static constexpr int64_t kUnitNs = 64;
    static constexpr uint32_t kWithBefore = uint32_t{1} << 31;

    uint32_t since_before = 0;     // from the entry of the call before it
    uint32_t started = kNoIndex;   // on the GPU, since it was entered; kNoIndex: not seen
    uint32_t ended = kNoIndex;     // likewise; where no GPU is watched, when a synchronisation behind it returned
    uint32_t sequence = kNoIndex;  // the lower bits of Entry::sequence, and kWithBefore: in one group with the call
                                   // before it
};
static_assert(sizeof(CallTimes) == 16);

// One piece of a step as the process's streams order it: a call of NCCL (or a group), or the other work that a stream
// does between two events. What it waits for is told as how many pieces before it that is, also into the step before.
struct StreamPiece {
    uint64_t kernels = 0;  // equal for the same work of this process; 0: a call
    uint32_t row = kNoIndex;
    OpKind kind{};
    uint16_t waits_for = 0;  // on its own stream; 0 nothing, as the following
    uint16_t and_for = 0;    // by an event

    bool is_call() const { return row != kNoIndex; }
};

// Time in a span by itself, without its inner spans and without blocking CUDA calls and NCCL's calls.
struct SpanTime {
    int64_t busy_ns = 0;
    int64_t ended_ns = 0;  // since its step began
    uint32_t name = 0;     // texts
};

// Calls of one operation on one communicator in one step, of a journal that keeps them as sums.
struct SummedCalls {
    uint64_t communicator_id = 0;
    int64_t step = 0;
    int64_t gpu_ns = 0;             // of those that were seen to start on the GPU before they had ended
    int64_t entered_ns = 0;         // in the mean
    uint64_t calls = 0, timed = 0;  // and those that were so seen
    uint32_t name = 0;              // of the communicator; texts
    OpKind kind{};
};

// One communicator as one process sees it: a row of its table.
struct Member {
    uint64_t id = 0;
    uint64_t parent_id = 0;
    uint64_t alias_id = 0;
    uint64_t issued = 0;    // collectives issued so far
    uint64_t finished = 0;  // sequence number of the newest one seen finished, + 1
    int64_t created_ns = 0;
    int64_t ready_ns = 0;
    int64_t closed_ns = 0;
    uint32_t communicator = kNoIndex;  // index into Run::communicators
    uint32_t ordinal = 0;
    uint32_t name = 0;
    uint32_t create_thread = 0;
    int32_t size = -1;
    int32_t rank = -1;
    int32_t global_rank = -1;
    int32_t device = -1;
    int32_t color = 0;
    int32_t key = 0;
    int32_t parent_rank = -1;
    int32_t create_result = -1;
    int32_t async_error = 0;
    OpKind origin{};
    CommState state = CommState::kUnused;
    bool identity_guessed = false;
    std::vector<uint32_t> calls;    // collectives of it in Process::entries, by sequence number
    CallLog call_log;               // all its collectives that the ring still held, in Process::history
    int64_t typical_ns = 0;         // median from the call to its completion, over the newest calls; 0 unknown
    int64_t returning_ns = 0;       // the longest of its calls that take long again and again, 0 none
    std::vector<Arrival> arrivals;  // a sample of them, by sequence number
    bool p2p_counted = false;
    // Counters of PyTorch's group (pg_status), -1 none. Its watchdog looked at each call's end and start, so they are
    // up to a second old; calls that only count as one when a coalesced group ends count once. Numbers are those of
    // collectives or, whatever came last, of the rank's own point-to-point calls (p2p_seq_id): a group with both does
    // not tell them apart. A call that is still inside NCCL on the host is not counted as enqueued.
    int64_t last_enqueued = -1;
    int64_t last_started = -1;  // stays -1 without TORCH_NCCL_ENABLE_TIMING
    int64_t last_completed = -1;
    std::vector<std::pair<int32_t, uint64_t>> sent, received;  // calls per peer, by peer, only where there are any

    uint64_t sent_to(int32_t peer) const { return count_of(sent, peer); }
    uint64_t received_from(int32_t peer) const { return count_of(received, peer); }

  private:
    static uint64_t count_of(const std::vector<std::pair<int32_t, uint64_t>>& counts, int32_t peer);
};

struct ThreadState {
    uint32_t thread = 0;
    uint32_t call = 0;  // text: the function it is inside, 0 = program code
    uint32_t last_call = 0;
    int64_t entered_ns = 0;
    int64_t last_call_ns = 0;
    uint64_t object = 0;
    uint64_t ticket = 0;  // ticket of its entry + 1
    uint64_t group = 0;
    uint32_t group_depth = 0;
    uint64_t launches = 0;
    uint64_t queries = 0;
    std::vector<uint32_t> spans;  // texts, outermost first
};

// A thread's position when its process was dumped: native and Python frames merged.
struct ThreadPosition {
    int32_t thread = 0;
    uint32_t name = 0;                     // texts
    uint32_t why_none = 0;                 // texts: where there are no frames
    std::vector<uint32_t> frames;          // texts, innermost first
    std::vector<uint32_t> libraries = {};  // texts: origin of each frame, 0 the program; may be shorter
    // Indexes of frames, kNoIndex none: the innermost Python frame; its caller in the program itself, if that frame is
    // not; the innermost native frame that is neither the C library's nor the interpreter's nor ours, inside the Python
    // frame if there is one.
    uint32_t python = kNoIndex;
    uint32_t caller = kNoIndex;
    uint32_t native = kNoIndex;
    bool held_gil = false;  // all the while that the stacks were taken
};

// A marker of the program.
struct Mark {
    uint32_t name = 0;  // texts
    int64_t step = -1;  // -1 before the first
    int64_t at_ns = 0;
    uint32_t place = 0;  // texts: where in the program, "train.py:40 step"
};

// The program says that a span of its own failed, or an event.
struct ErrorMark : Mark {
    uint32_t message = 0;  // texts
};

// A span or an event, and the facts that the program told of it.
struct ToldMark : Mark {
    uint32_t facts = 0;  // texts: "microbatch=3, kind=train"
};

// The values of one metric that the record holds.
struct MetricRecord {
    uint32_t name = 0;  // texts
    uint64_t values = 0;
    double last_value = 0;
    uint64_t bad_values = 0;      // its newest ones that are no finite numbers; 0: the newest is one
    uint64_t bad_ever = 0;        // all that are none
    int64_t first_bad_step = -1;  // of these
    Mark bad_since;               // the first of bad_values; its name is that of the innermost open span
    int64_t last_step = -1;
    bool bad_from_start = false;  // so is the oldest that the record holds, and older markers are overwritten
};

// The newest reading of one thing of the machine.
struct HealthReading {
    uint32_t name = 0;  // texts: "gpu.0.power_w", "port.mlx5_0/1.symbol_error", "host.memory_available_mib"
    double value = 0;
    double first_value = 0;   // of the process
    int64_t since_step = -1;  // of the process, when it became this
    int64_t since_ns = 0;
    int64_t at_ns = 0;
};

// What a damaged record may hold in place of a reading is 0.
constexpr double plausible_reading(double value) { return value >= 0 && value <= 9e15 ? value : 0; }

// A process that this one started: a data loader, a saver of checkpoints.
struct ChildProcess {
    int32_t pid = 0;
    uint32_t name = 0;          // texts
    char state = '?';           // as in /proc
    uint32_t wait_channel = 0;  // texts: the kernel function that it waits in
    uint64_t cpu_ns = 0;
    std::vector<uint32_t> frames;  // texts: of its main thread in Python, innermost first
    int64_t ended_ns = 0;          // when it was found to have ended, up to a second late; 0 it lives
    int32_t wait_status = -1;      // then, as wait() gives it; -1 unknown
};

// kEnded: gone, or about to go, because something else had ended or hung before: its last activity is analyzed.
enum class Liveness { kUnknown, kAlive, kExited, kCrashed, kKilled, kEnded };

// The end of a process. Times are CLOCK_REALTIME of its host, 0 unknown or not yet.
struct Ending {
    int64_t seen_ns = 0;       // newest sign of life in its record
    int64_t asked_ns = 0;      // when a signal asked it to end
    int64_t left_ns = 0;       // when it left by itself
    int32_t signal = 0;        // the signal that asked
    int32_t sender = 0;        // pid, 0 the kernel
    int32_t exit_status = -1;  // -1 unknown
    Halt halt = Halt::kNone;
    bool guessed = false;    // only the waits of the others suggest that it ended first
    bool unchecked = false;  // and nobody could look up whether it has ended at all
    int64_t waited_ns = 0;   // how long it had waited in a call when it was killed, if that may have been a hang

    bool asked() const { return asked_ns != 0; }
    bool failed() const { return exit_status > 0; }
};

// The processors that a process asked for and got, as its dump tells.
struct Processors {
    uint32_t online = 0;         // processors of the host, 0 nothing is known
    uint32_t allowed = 0;        // processors that the process may run on, 0 unknown
    uint32_t quota_cent = 0;     // hundredths of a processor that its cgroups leave it, 0 no limit known
    uint32_t load_cent[3] = {};  // load averages of the host over 1, 5 and 15 minutes, in hundredths
    uint32_t threads = 0;        // number of threads in these sums: the main thread and those that call NCCL
    uint64_t run_ns = 0;         // time on a processor, since each thread began
    uint64_t run_delay_ns = 0;   // ready to run, and without a processor

    bool known() const { return online != 0; }
};

// Source of the time of a dump, Process::now_ns.
enum class Moment : uint8_t {
    kRecorded,  // the dump says so, explicitly or by what it found only then
    kFileTime,  // nothing in it does: the file's time, which a copy may have changed
    kGuessed,   // nor does the file's time: no wait is longer than PyTorch's timeout lets it be
    kUnknown,   // the file's time is before its own content: a clock was set back, or the time is not the file's
};

// Abilities of the recorder of a process. The loader sets them; later stages ask for these and not for who recorded.
struct Coverage {
    bool host_calls = true;  // inside which calls its threads are
    bool streams = true;     // which stream a call runs on, and what else runs there
    bool moments = true;     // when a call ran on the GPU; otherwise only for how long
    // A watchdog looked which calls had ended, up to a second late, and dumped when one did not.
    bool by_watchdog = false;
    uint8_t first_number = 0;  // sequence number of a communicator's first collective
};
inline constexpr Coverage kFlightRecorderCoverage{false, false, false, true, 1};

// 0 for a name that this build does not know.
format::DumpReason reason_named(std::string_view name);

// The origin of a process's record.
struct Source {
    std::string path;
    std::string member;  // member of the archive at `path`
    std::string label;   // file name, for messages
    bool is_ring = false;
    bool is_flight_recorder = false;  // PyTorch's
    int recorder_minor = 0;           // and of its version 2.x the x
    bool is_digest = false;
    bool is_journal = false;  // nothing else is left of it
    uint64_t dump_number = 0;
    int64_t written_ns = 0;  // the file's time, where the dump's moment is not in it
    // 0: no dump, or for a reason that this build does not know. Of a ring: of its own dump that it is newer than.
    format::DumpReason reason{};
    int64_t replaced_ns = 0;  // the moment of that dump, 0 none
    std::string detail;
};

// Point-to-point calls of one member with one peer, by sequence number.
struct PeerCalls {
    uint32_t row = kNoIndex;
    OpKind kind{};
    int32_t peer = -1;
    uint64_t first = 0;
    uint64_t last = 0;
};

// Elements that a member of an all_to_all passes: they may differ from member to member, their sums may not.
struct Exchange {
    uint32_t row = kNoIndex;
    uint64_t sequence = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    // By rank in the communicator; empty where the record does not tell. Where both sides of a pair do, they are equal.
    std::vector<uint64_t> sent_to;
    std::vector<uint64_t> received_from;
};

using format::plausible_rank;

// The label by which a program, or torchtitan's logger, tells what a process is: "trainer", "generator".
inline constexpr char kRoleLabel[] = "role";

struct Process {
    Source source;
    int32_t pid = 0;
    uint64_t pid_start_ticks = 0;
    int32_t rank = -1;
    int32_t world_size = -1;
    int32_t attempt = 0;
    std::string run;
    std::string host;
    std::string boot_id;
    Liveness liveness = Liveness::kUnknown;
    int32_t fatal_signal = 0;
    uint32_t fatal_thread = 0;  // thread that got it, 0 unknown
    Ending ending;
    Processors processors;
    int64_t now_ns = 0;  // the moment of the dump
    Moment moment = Moment::kRecorded;
    int64_t started_ns = 0;  // the tracer's first anchor
    int64_t step = -1;
    uint64_t timeout_ns = 0;  // taken from its record
    bool gpu_progress = false;
    format::GpuProgressMethod gpu_method{};
    uint32_t gpu_sample = 1;  // one step of n is observed, or one launch
    Observing observing;
    bool starts_seen = false;        // when calls start on the GPU is observed
    bool starts_with_ends = false;   // and each start was noted with its end, as far as this record shows
    bool partial_recording = false;  // TITANTRACE_RANKS was set: other ranks may rightly have no record
    Coverage sees;
    uint64_t first_ticket = 0;  // ticket of entries[0]
    uint64_t overwritten = 0;
    uint64_t torn = 0;
    uint64_t losses[format::kLossCount] = {};
    std::vector<Entry> entries;     // in program order; once condensed the newest and unfinished: `history` has all
    std::vector<uint64_t> tickets;  // one for each entry, only if they have gaps
    History history;
    bool condensed = false;
    std::vector<uint32_t> callers;        // threads that made the newest calls
    std::vector<PeerCalls> passed_pairs;  // once condensed: point-to-point calls that are done and have no entry
    std::vector<Exchange> exchanges;      // the newest ones, where the record tells both sides
    std::vector<Member> members;
    std::vector<ThreadState> threads;
    // Of the threads that call NCCL and the main thread, the most telling first: one that crashed, one inside a call.
    std::vector<ThreadPosition> positions;
    StackSamples stack_samples;
    std::vector<MetricRecord> metrics;
    ToldMark last_event;  // at_ns 0: there is none, as of the following
    ToldMark open_span;   // the innermost of the thread that called NCCL last; at_ns: its begin
    ErrorMark last_error;
    std::vector<HealthReading> health;
    std::vector<ChildProcess> children;  // those that live, and the newest that have ended
    uint64_t out_of_memory_kills = 0;    // in its control group, since it started
    uint32_t python_threads = 0;         // threads that ran Python when the stacks were taken; of all, kept or not
    std::vector<StreamWork> work;        // not known to be done
    StreamCoverage streams_seen;
    std::vector<std::pair<uint32_t, uint32_t>> work_done;  // by name: how often it is known to have ended
    std::vector<ChannelWork> channels;
    std::vector<ChannelCounts> channel_counts;
    // Texts of name and value, by name: variables of NCCL, CUDA, PyTorch and the network, versions.
    std::vector<std::pair<uint32_t, uint32_t>> config;
    std::vector<std::pair<uint32_t, uint32_t>> labels;  // titan_label: texts of key and value, the newest of each key
    std::vector<StepProfile> steps;                     // the newest ones that ended, in order
    std::vector<SpanTime> step_spans;
    bool steps_by_period = false;           // the program marks none: they are what its calls repeat
    int64_t call_times_from_ns = 0;         // the first of call_times was entered
    std::vector<CallTimes> call_times;      // of the newest calls in `history`, up to its end
    std::vector<SummedCalls> summed_calls;  // of a journal: of the newest steps; a step may have two of a kind
    std::vector<StreamPiece> step_streams;  // of each step; empty where the record does not show it
    // Libraries of this process that move data between GPUs unrecorded: "NVSHMEM (nvshmem_bootstrap_uid.so.3)".
    std::vector<std::string> unrecorded;
    std::vector<std::string> texts;  // those that are referred to; [0] is empty

    const std::string& text(uint32_t id) const { return id < texts.size() ? texts[id] : texts.front(); }
    const std::string& label(std::string_view key) const;  // empty: it has none
    const std::string& role() const;                       // likewise
    const Entry* entry_of_ticket(uint64_t ticket) const;
    const Entry* call_at(const Member& member, uint64_t sequence) const;
    // The same if its full entry is gone, too: what the history tells of it, its time to within a few calls.
    std::optional<Entry> recall(const Member& member, uint64_t sequence) const;
    const CallSignature* signature_at(const Member& member, uint64_t sequence) const;
    bool has_passed_pair(uint32_t row, OpKind kind, int32_t peer, uint64_t sequence) const;
    // Ended against its will, or in failure.
    bool died() const {
        return liveness == Liveness::kCrashed || liveness == Liveness::kKilled ||
               (liveness == Liveness::kExited && ending.failed());
    }
    bool is_gone() const { return died() || liveness == Liveness::kExited; }
    bool has_ended() const { return is_gone() || liveness == Liveness::kEnded; }
    int64_t last_activity_ns() const;                   // of the newest thing that it is known to have done
    const StepProfile* profile_of(int64_t step) const;  // null: it has no such step
    // PyTorch's watchdog ends the job of a call that takes longer: a clock was set while that one ran.
    bool may_have_taken(int64_t duration_ns) const {
        return !sees.by_watchdog || timeout_ns == 0 || duration_ns <= watchdog_ns();
    }
    // The time after which its watchdog calls a wait a hang, 0 never. Sums with it stay in range.
    int64_t watchdog_ns() const { return static_cast<int64_t>(std::min<uint64_t>(timeout_ns, INT64_MAX / 4)); }
};

// Sizes are read from files: larger ones are damage, not jobs.
inline constexpr int32_t kMaxRanks = 1 << 20;

// A member of a communicator: which process, and which row of its table.
struct MemberRef {
    uint32_t process = kNoIndex;
    uint32_t row = kNoIndex;
    bool known() const { return process != kNoIndex; }
    bool operator==(const MemberRef&) const = default;
};

// Communicator ranks nearly always lie on a line over global ranks (the world, dp groups, tp groups).
struct RankLine {
    int first = -1;  // the first member whose global rank is known
    int base = 0;    // its global rank
    int64_t slope = 1;
    int unknown_members = 0;
    bool crooked = false;  // no line goes through all of them
    bool fits = false;

    int64_t at(int comm_rank) const { return base + slope * (int64_t{comm_rank} - first); }
};

struct Communicator {
    uint64_t id = 0;
    uint64_t parent_id = 0;
    uint32_t ordinal = 0;
    int32_t size = -1;
    OpKind origin{};
    bool identity_guessed = false;
    uint64_t least_issued = UINT64_MAX;  // collectives of the member that is furthest behind: nothing later is finished
    std::string name;
    std::vector<MemberRef> members;  // all known ones, by communicator rank where known
    std::vector<MemberRef> by_rank;  // index = communicator rank; empty where the size is unknown
    RankLine rank_line;              // made by link()
};

class Layout;  // layout.h

struct Run {
    std::string id;
    int32_t attempt = 0, start = 0, starts = 0;  // which start in its directory of how many (load/starts.h); 0: of one
    int32_t world_size = -1;
    std::string world;               // its name, where others of the run number their ranks alike (choose_role.h)
    std::vector<Run> beside;         // those others
    std::vector<Process> processes;  // sorted by rank
    std::vector<Communicator> communicators;
    std::vector<int> ranks;  // ranks with a record
    std::vector<int> missing_ranks;
    std::vector<std::string> hosts;
    std::vector<Warning> warnings;
    size_t passed_over = 0;             // other attempts and runs in the same place, where the newest was chosen
    std::vector<Process> journaled;     // where others have dumps or rings: those that a journal alone tells of
    std::vector<std::string> journals;  // paths (sources/journals.h)
    std::vector<Testimony> testimony;   // statements of witnesses (witness.h), as far as they are about this run
    std::string end_unclear;  // why it is unknown which process ended first; empty if it is not, or none ended
    bool partial_recording = false;
    std::shared_ptr<const Layout> layout;  // made by link()

    const Process& process(MemberRef ref) const { return processes[ref.process]; }
    const Member& member(MemberRef ref) const { return processes[ref.process].members[ref.row]; }
    std::optional<uint32_t> find_communicator(uint64_t id) const;
    // Global rank of a communicator rank, -1 where nothing tells it.
    int global_rank(const Communicator& communicator, int comm_rank) const;

    std::unordered_map<uint64_t, uint32_t> communicator_index;  // key: id or alias
    // Global ranks by communicator rank, of communicators whose record lists them; by id.
    std::unordered_map<uint64_t, std::vector<int32_t>> ranks_of;
};

}  // namespace titan::analyzer

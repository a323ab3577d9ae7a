// The segment that all ranks of one job on one node share: `<ring
// dir>/titantrace-<uid>/<run>.<attempt>.v<version>-<bytes>.job`.
//
// It lives as long as the job and is no format to keep. Version and size are in its name, so that two versions of
// titantrace on one node never share a file: a process that has a segment mapped dies by SIGBUS when another makes it
// shorter. Other processes of this user may change any byte at any time, so positions are copied and checked before
// use. Ranks map it; tools read copies (job_image.h) and write single words at their offsets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::format {

inline constexpr unsigned kJobVersion = 1;
inline constexpr uint64_t kJobMagic = 0x424F4A544E544954;  // "TITNTJOB"
inline constexpr uint32_t kMaxJobProcesses = 480;
inline constexpr uint32_t kJobRequests = 8;

enum class JobState : uint32_t {
    kFree = 0,
    kRunning = 1,
    kExited = 2,      // left in order
    kCrashed = 3,     // killed by a fatal signal, with a dump of its own
    kDead = 4,        // gone without a word
    kReplaced = 5,    // its rank registered again
    kAskedToEnd = 6,  // ended by a signal, or failed after one; its ring shows its last state
};

struct JobRequest {
    DumpReason reason;
    int32_t rank;
    int32_t pid;  // pid of the requester on this node, 0 if it came from another node
    uint64_t realtime_ns;
    char detail[160];
};

struct JobProcess {
    std::atomic<JobState> state;
    int32_t pid;
    int32_t rank;
    std::atomic<uint32_t> claim;  // pid of the process that writes the dead one's dump
    uint64_t start_ticks;
    uint64_t pid_namespace;
    // Markers, calls summed up step by step, and readings of the machine with tickets below these are in the journal,
    // or lost.
    std::atomic<uint64_t> journaled;
    std::atomic<uint64_t> journaled_calls;
    std::atomic<uint64_t> journaled_readings;
    char ring_path[208];  // empty: in private memory, or too long to tell
};
static_assert(sizeof(JobProcess) == 264);

// Same protocol as a ring's slot: odd while it is written.
struct JobRequestSlot {
    std::atomic<uint64_t> sequence;
    JobRequest request;
};

struct JobSegment {
    std::atomic<uint64_t> magic;  // written last
    uint64_t bytes;
    std::atomic<uint32_t> wake;  // futex that the watch threads of all ranks sleep on; any change wakes them
    std::atomic<uint32_t> dumps_written;
    std::atomic<uint64_t> generation;
    std::atomic<uint64_t> newest_remote_id;
    std::atomic<uint64_t> lease;  // holder's place + 1 in the upper 16 bits, below them its last sign of life in ms
    std::atomic<uint64_t> asked_others_ms;
    std::atomic<uint64_t> last_life_realtime_ns;
    std::atomic<uint32_t> process_count;
    std::atomic<uint32_t> journal_files;  // made so far
    std::atomic<uint64_t> told_of_dump_ms;
    std::atomic<uint64_t> told_of_nan_ms;
    std::atomic<uint64_t> has_markers;  // 1: a process of the node has marked something
    JobRequestSlot requests[kJobRequests];
    JobProcess processes[kMaxJobProcesses];
};
static_assert(sizeof(JobSegment) <= 128 << 10);

}  // namespace titan::format

#include "job.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/futex.h"
#include "base/process.h"
#include "base/text.h"
#include "job_file.h"
#include "log.h"

namespace titan::tracer {
namespace {

using format::JobSegment;

constexpr uint64_t kLeaseLostMs = 3000;
// Ranks of one attempt start within minutes of each other: dead entries younger than this are this attempt's
// dead.
constexpr uint64_t kSameAttemptNs = 600ull * 1'000'000'000;

struct Membership {
    JobSegment* segment;
    uint32_t place;
    uint64_t seen_generation;
    uint64_t pid_namespace;
    uint32_t dead_before;  // when this process joined
    JobPlace file;
};
constinit Membership member{};
constinit std::atomic<uint32_t> private_wake_word{0};

uint32_t used_places(const JobSegment& segment) {
    uint32_t count = segment.process_count.load(std::memory_order_acquire);
    return count < kMaxJobProcesses ? count : kMaxJobProcesses;
}

bool here_and_alive(const JobProcess& process) {
    return process.pid_namespace != member.pid_namespace || process_alive(process.pid, process.start_ticks);
}

bool nobody_lives(const JobSegment& segment, const Identity&) {
    return std::none_of(segment.processes, segment.processes + used_places(segment), [](const JobProcess& process) {
        return process.state.load(std::memory_order_acquire) == JobState::kRunning && here_and_alive(process);
    });
}

// An old segment of the same name: nobody in it lives, and it cannot be the attempt that is starting now.
bool from_earlier_run(const JobSegment& segment, const Identity& identity) {
    if (!nobody_lives(segment, identity)) {
        return false;
    }
    const uint32_t places = used_places(segment);
    const bool rank_was_here = std::any_of(segment.processes, segment.processes + places,
                                           [&](const JobProcess& process) { return process.rank == identity.rank; });
    const uint64_t idle_ns = realtime_now_ns() - segment.last_life_realtime_ns.load(std::memory_order_relaxed);
    return places != 0 && (rank_was_here || idle_ns > kSameAttemptNs);
}

// Nobody will ask about this one any more: its rank registered again, it left in order, or its dump is written.
bool is_over(const JobProcess& process) {
    const JobState state = process.state.load(std::memory_order_acquire);
    const bool told = state == JobState::kReplaced || state == JobState::kExited || state == JobState::kCrashed ||
                      ((state == JobState::kDead || state == JobState::kAskedToEnd) &&
                       process.claim.load(std::memory_order_relaxed) != 0);
    return told && !here_and_alive(process);
}

// A place for one more process: a new one, and where all were used once that of the one among those that are over which
// started first.
JobProcess* free_place(JobSegment& segment) {
    const uint32_t places = used_places(segment);
    if (places < kMaxJobProcesses) {
        return &segment.processes[places];
    }
    JobProcess* oldest = nullptr;
    for (JobProcess& process : segment.processes) {
        if (is_over(process) && (oldest == nullptr || process.start_ticks < oldest->start_ticks)) {
            oldest = &process;
        }
    }
    // A process that left in order has nothing more to show, and a job that runs for weeks must not keep its ring.
    if (oldest != nullptr && oldest->state.load(std::memory_order_relaxed) == JobState::kExited) {
        remove_ring_at(oldest->ring_path);
    }
    return oldest;
}

bool enter_process(JobSegment& segment, const Identity& identity, const RingFile& ring_file) {
    const uint32_t places = used_places(segment);
    for (uint32_t i = 0; i < places; ++i) {
        JobProcess& other = segment.processes[i];
        JobState running = JobState::kRunning;
        // Our own process, before an exec that nobody saw; or our rank's, before it was started again.
        const bool ours = other.pid == identity.pid && other.start_ticks == identity.pid_start_ticks &&
                          other.pid_namespace == identity.pid_namespace;
        if (ours || (other.rank == identity.rank && identity.rank >= 0 && !here_and_alive(other))) {
            other.state.compare_exchange_strong(running, JobState::kReplaced);
        }
    }
    JobProcess* const own = free_place(segment);
    if (own == nullptr) {
        return false;
    }
    own->state.store(JobState::kFree, std::memory_order_release);
    own->pid = identity.pid;
    own->rank = identity.rank;
    own->claim.store(0, std::memory_order_relaxed);
    own->journaled.store(0, std::memory_order_relaxed);
    own->journaled_calls.store(0, std::memory_order_relaxed);
    own->journaled_readings.store(0, std::memory_order_relaxed);
    own->start_ticks = identity.pid_start_ticks;
    own->pid_namespace = identity.pid_namespace;
    if (!copy_text(own->ring_path, sizeof(own->ring_path), ring_file.path)) {
        own->ring_path[0] = '\0';
    }
    own->state.store(JobState::kRunning, std::memory_order_release);
    member.place = static_cast<uint32_t>(own - segment.processes);
    if (member.place == places) {
        segment.process_count.store(places + 1, std::memory_order_release);
    }
    return true;
}

// Counts the processes for which counted(process, state) is true.
template <typename Counted>
uint32_t count_processes(Counted counted) {
    uint32_t count = 0;
    for (const JobProcess& process : job_processes()) {
        count += counted(process, process.state.load(std::memory_order_acquire)) ? 1 : 0;
    }
    return count;
}

// Calls visit(process, state) for all processes but this one.
template <typename Visit>
void each_other(Visit visit) {
    for (JobProcess& process : job_processes()) {
        if (&process != &member.segment->processes[member.place]) {
            visit(process, process.state.load(std::memory_order_acquire));
        }
    }
}

uint32_t count_dead() {
    return count_processes([](const JobProcess&, JobState state) { return state == JobState::kDead; });
}

enum class Entered { kNo, kYes, kLocked };

Entered enter_segment(const char* parent, bool create, const Identity& identity, const RingFile& ring_file) {
    LockedFile lock;
    JobSegment* const segment =
        open_job_segment(parent, create, member.file, lock, create ? from_earlier_run : nobody_lives, identity);
    if (segment == nullptr || !enter_process(*segment, identity, ring_file)) {
        if (segment != nullptr) {
            munmap(segment, sizeof(JobSegment));
        }
        return lock.is_held_by_another() ? Entered::kLocked : Entered::kNo;
    }
    segment->last_life_realtime_ns.store(realtime_now_ns(), std::memory_order_relaxed);
    member.seen_generation = segment->generation.load(std::memory_order_acquire);
    member.segment = segment;
    member.dead_before = count_dead();
    return Entered::kYes;
}

void claim_own_place() {
    member.segment->processes[member.place].claim.store(static_cast<uint32_t>(getpid()), std::memory_order_relaxed);
}

bool is_own_lease(uint64_t lease) { return lease >> 48 == uint64_t{member.place} + 1; }

uint64_t make_lease(uint64_t now_ms) {
    return (uint64_t{member.place} + 1) << 48 | (now_ms & ((uint64_t{1} << 48) - 1));
}

constinit std::atomic<uint64_t> own_remote_id{0};
constinit std::atomic<uint64_t> own_asked_ms{0};

// True for one caller per pause.
bool is_first_within(std::atomic<uint64_t>& last_ms, uint64_t pause_ms) {
    const uint64_t now_ms = monotonic_now_ns() / 1'000'000;
    uint64_t before_ms = last_ms.load(std::memory_order_relaxed);
    return (before_ms == 0 || before_ms > now_ms || now_ms - before_ms > pause_ms) &&
           last_ms.compare_exchange_strong(before_ms, now_ms, std::memory_order_acq_rel);
}

}  // namespace

// One node is one job, wherever the rings found room: first the segment of ranks that live, then a new one.
bool join_job(const Config& config, const Identity& identity, const RingFile& ring_file) {
    forget_job();
    format_text(member.file.name, sizeof(member.file.name), "%s.%d.v%u-%zu.job", identity.run, identity.attempt,
                format::kJobVersion, sizeof(JobSegment));
    member.pid_namespace = identity.pid_namespace;
    Entered entered = Entered::kNo;
    for (const bool create : {false, true}) {
        for (const char* parent : {static_cast<const char*>(config.ring_dir), "/tmp"}) {
            // The other ranks are where a segment is locked: nobody would look for this one elsewhere.
            entered = entered == Entered::kNo ? enter_segment(parent, create, identity, ring_file) : entered;
        }
    }
    if (entered != Entered::kYes) {
        warn_once("cannot share %s in %s or /tmp with the other ranks of this node%s: this rank dumps on its own",
                  member.file.name, config.ring_dir,
                  entered == Entered::kLocked ? ", another process keeps it locked" : "");
    }
    return entered == Entered::kYes;
}

bool in_job() { return member.segment != nullptr; }

void forget_job() {
    if (member.segment != nullptr) {
        munmap(member.segment, sizeof(JobSegment));
    }
    member = Membership{};
}

std::atomic<uint32_t>& wake_word() { return member.segment == nullptr ? private_wake_word : member.segment->wake; }

void wake_watchers() {
    std::atomic<uint32_t>& word = wake_word();
    word.fetch_add(1, std::memory_order_release);
    futex_wake_all(word, FutexScope::kShared);
}

void publish_request(const JobRequest& request) {
    if (member.segment == nullptr) {
        return;
    }
    const uint64_t generation = member.segment->generation.fetch_add(1, std::memory_order_acq_rel) + 1;
    format::JobRequestSlot& slot = member.segment->requests[generation % kJobRequests];
    slot.sequence.store(2 * generation + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    slot.request = request;
    slot.sequence.store(2 * generation + 2, std::memory_order_release);
    wake_watchers();
}

bool next_request(JobRequest& request) {
    if (member.segment == nullptr) {
        return false;
    }
    // Only the newest counts: one dump answers all that were asked before it.
    const uint64_t generation = member.segment->generation.load(std::memory_order_acquire);
    if (generation == member.seen_generation) {
        return false;
    }
    format::JobRequestSlot& slot = member.segment->requests[generation % kJobRequests];
    const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
    request = slot.request;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (sequence != 2 * generation + 2 || slot.sequence.load(std::memory_order_relaxed) != sequence) {
        return false;  // being written; its writer wakes us when it is done
    }
    request.detail[sizeof(request.detail) - 1] = '\0';
    member.seen_generation = generation;
    return request.pid != member.segment->processes[member.place].pid;
}

bool has_lease() {
    return member.segment == nullptr || is_own_lease(member.segment->lease.load(std::memory_order_relaxed));
}

bool hold_lease() {
    if (member.segment == nullptr) {
        return true;
    }
    const uint64_t now_ms = monotonic_now_ns() / 1'000'000;
    uint64_t lease = member.segment->lease.load(std::memory_order_relaxed);
    const bool mine = is_own_lease(lease);
    const uint64_t held_ms = lease & ((uint64_t{1} << 48) - 1);
    const bool lost = lease == 0 || held_ms > now_ms || now_ms - held_ms > kLeaseLostMs;
    if (!mine && !lost) {
        return false;
    }
    if (!member.segment->lease.compare_exchange_strong(lease, make_lease(now_ms), std::memory_order_acq_rel)) {
        return false;
    }
    member.segment->last_life_realtime_ns.store(realtime_now_ns(), std::memory_order_relaxed);
    return true;
}

bool learn_remote_id(uint64_t id) {
    std::atomic<uint64_t>& newest = member.segment == nullptr ? own_remote_id : member.segment->newest_remote_id;
    const uint64_t before = newest.exchange(id, std::memory_order_acq_rel);
    return before != 0 && before != id && id != kNoRemoteRequest;
}

bool first_to_ask_others() {
    return is_first_within(member.segment == nullptr ? own_asked_ms : member.segment->asked_others_ms,
                           kAskOthersPauseMs);
}

bool first_to_tell_of_dump() {
    return member.segment == nullptr || is_first_within(member.segment->told_of_dump_ms, kOneDumpMs);
}

bool first_to_tell_of_nan() {
    return member.segment == nullptr || is_first_within(member.segment->told_of_nan_ms, kOneNanMs);
}

uint32_t ranks_here() {
    const std::span<const JobProcess> processes = job_processes();
    uint32_t ranks = 0;
    for (const JobProcess& process : processes) {
        const int32_t rank = process.rank;
        const auto has_rank = [rank](const JobProcess& other) { return other.rank == rank; };
        ranks += rank >= 0 && std::none_of(processes.data(), &process, has_rank) ? 1 : 0;  // its first process
    }
    return std::max(ranks, 1u);
}

void note_dump_written() {
    if (member.segment != nullptr) {
        member.segment->dumps_written.fetch_add(1, std::memory_order_relaxed);
    }
}

bool notice_dead(const JobProcess*& dead, bool asked_too) {
    dead = nullptr;
    each_other([&](JobProcess& process, JobState state) {
        const bool counts = state == JobState::kRunning || (asked_too && state == JobState::kAskedToEnd);
        if (counts && !here_and_alive(process) && process.state.compare_exchange_strong(state, JobState::kDead) &&
            dead == nullptr) {
            dead = &process;
        }
    });
    return dead != nullptr;
}

bool is_asked_one_gone() {
    return count_processes([](const JobProcess& process, JobState state) {
               return state == JobState::kAskedToEnd && !here_and_alive(process);
           }) != 0;
}

bool has_anyone_died() { return count_dead() > member.dead_before; }

void claim_gone(bool (*write)(const JobProcess& process)) {
    each_other([write](JobProcess& process, JobState state) {
        uint32_t unclaimed = 0;
        const bool told = state == JobState::kAskedToEnd && !here_and_alive(process);
        const bool gone = state == JobState::kDead || state == JobState::kExited || told;
        if (gone && process.claim.compare_exchange_strong(unclaimed, static_cast<uint32_t>(getpid()))) {
            write(process);
        }
    });
}

void notice_replaced(bool (*was_replaced)(const JobProcess& process)) {
    each_other([was_replaced](JobProcess& process, JobState state) {
        if (state == JobState::kRunning && process.pid_namespace == member.pid_namespace &&
            process_alive(process.pid, process.start_ticks) && was_replaced(process)) {
            process.state.compare_exchange_strong(state, JobState::kExited);
        }
    });
}

JobState exchange_job_state(JobState state) {
    return member.segment == nullptr
               ? JobState::kFree
               : member.segment->processes[member.place].state.exchange(state, std::memory_order_acq_rel);
}

void set_job_state(JobState state) { exchange_job_state(state); }

void note_last_dump() {
    if (member.segment != nullptr) {
        claim_own_place();
        set_job_state(JobState::kCrashed);
    }
}

void note_exit_dump() {
    if (member.segment != nullptr) {
        claim_own_place();
    }
}

void note_dump_at_end() {
    if (member.segment != nullptr &&
        member.segment->processes[member.place].state.load(std::memory_order_acquire) == JobState::kAskedToEnd) {
        claim_own_place();
    }
}

std::span<JobProcess> job_processes() {
    return member.segment == nullptr ? std::span<JobProcess>()
                                     : std::span(member.segment->processes, used_places(*member.segment));
}

uint32_t take_journal_number() {
    return member.segment == nullptr ? 0 : member.segment->journal_files.fetch_add(1, std::memory_order_relaxed);
}

bool node_has_markers() {
    return member.segment != nullptr && member.segment->has_markers.load(std::memory_order_relaxed) != 0;
}

void note_markers() {
    if (member.segment != nullptr) {
        member.segment->has_markers.store(1, std::memory_order_relaxed);
    }
}

bool begin_leaving() {
    if (member.segment == nullptr) {
        return true;
    }
    if (has_lease()) {
        member.segment->lease.store(0, std::memory_order_relaxed);
    }
    // Comes before the files: a process that has changed its user or its root directory cannot reach one any more, but
    // leaves in order all the same.
    set_job_state(JobState::kExited);
    return count_processes([](const JobProcess& process, JobState state) {
               return state == JobState::kRunning && here_and_alive(process);
           }) == 0;
}

void leave_job(bool is_last) {
    if (member.segment == nullptr || !is_last) {
        return;
    }
    JobSegment& segment = *member.segment;
    Fd dir(open(member.file.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    constexpr int kPatienceMs = 1000;
    LockedFile file = dir.valid() ? open_job_file(dir.get(), member.file.name, false, kPatienceMs) : LockedFile();
    struct stat named {};
    if (!file.valid()) {
        return;
    }
    const bool ours = fstat(file.get(), &named) == 0 && named.st_ino == member.file.inode;
    const std::span<const JobProcess> processes = job_processes();
    const bool all_in_order = std::all_of(processes.begin(), processes.end(), [](const JobProcess& process) {
        return process.state.load(std::memory_order_acquire) == JobState::kExited;
    });
    if (!all_in_order || segment.dumps_written.load(std::memory_order_relaxed) != 0) {
        return;
    }
    for (const JobProcess& process : processes) {
        remove_ring_at(process.ring_path);
    }
    if (ours) {
        unlinkat(dir.get(), member.file.name, 0);
    }
}

}  // namespace titan::tracer

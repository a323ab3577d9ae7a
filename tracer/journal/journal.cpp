#include "journal.h"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.h"
#include "base/futex.h"
#include "base/map_private.h"
#include "base/process.h"
#include "formats/container/journal_writer.h"
#include "formats/container/section_writer.h"
#include "job.h"
#include "journal_files.h"
#include "log.h"
#include "own_thread.h"
#include "ring_tail.h"
#include "session.h"
#include "sum_steps.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kLookNs = 1'000'000'000;
constexpr uint64_t kQuickLookNs = 100'000'000;  // where rings fill within seconds
constexpr uint64_t kShortestPeriodNs = 100'000'000;
constexpr uint64_t kSaveNs = 1'000'000'000;
constexpr size_t kStagedBytes = 4 << 20;  // as much as one call of JournalFiles::append() may take
constexpr size_t kIndexRoomBytes = format::BlockIndex::kMostBytes + (4 << 10);
constexpr size_t kMostSectionBytes = (1 << 20) + (8 << 10);  // a block that does not compress

// How far a ring was read. Of the process in that place of the job segment.
struct Reading {
    uint64_t start_ticks;
    uint64_t next_marker;
    uint64_t next_call;
    uint64_t next_reading;
    format::ProcessState state;  // as the newest block tells it
};

// The writer's memory; only in the process that writes.
struct Workshop {
    JournalFiles files;
    Reading readings[kMaxJobProcesses];
    format::MarkerEntry markers[format::kJournalBlockMarkers];
    StepRoom steps;
    format::JournalBlock block;
    format::BlockIndex index;  // of the blocks that wait for the file
    unsigned char index_section[kIndexRoomBytes];
    size_t staged_bytes;  // behind the room for their index
    unsigned char staged[kStagedBytes];
};

constinit std::atomic<bool> is_writer{false};
constinit std::atomic<bool> started{false};
constinit std::atomic<bool> failed{false};     // there is no thread that writes, and nobody may wait for it
constinit std::atomic<uint64_t> looked_at{0};  // by has_marked: the ticket that comes next
constinit std::atomic<uint32_t> wake{0};
constinit std::atomic<uint32_t> saves_wanted{0};
constinit std::atomic<uint32_t> saves_done{0};

class Journal {
  public:
    explicit Journal(const Session& session)
        : session_(session), period_ns_(std::max(session.config.journal_ns, kShortestPeriodNs)) {}

    bool start() {
        work_ = map_private<Workshop>();
        const size_t workspace_bytes = format::section_workspace_bytes();
        void* const workspace = map_private<char>(workspace_bytes);
        if (work_ == nullptr || workspace == nullptr) {
            warn_once("no memory for the journal: it is not written");
            return false;
        }
        sections_ = format::SectionWriter(workspace, workspace_bytes, stage, this);
        work_->files.start(session_.config, session_.identity, uint64_t{session_.config.journal_mib} << 20);
        return true;
    }

    void run() {
        for (;;) {
            const uint32_t word = wake.load(std::memory_order_acquire);
            const uint32_t wanted = saves_wanted.load(std::memory_order_acquire);
            const bool saves = wanted != saves_done.load(std::memory_order_relaxed);
            uint64_t pause_ns = period_ns_;
            if (saves || is_writer.load(std::memory_order_acquire)) {
                pause_ns = look(saves);
            } else {
                forget();
            }
            if (saves) {
                saves_done.store(wanted, std::memory_order_release);
                futex_wake_all(saves_done);
            }
            futex_wait(wake, word, pause_ns);
        }
    }

  private:
    static bool stage(void* self, const void* bytes, size_t size_bytes) {
        Journal& journal = *static_cast<Journal*>(self);
        std::memcpy(journal.next_section_, bytes, size_bytes);  // there is room, see take()
        journal.next_section_ += size_bytes;
        return true;
    }

    // Returns its size; 0: it could not be made.
    uint64_t add_section(format::JournalSection kind, std::span<const unsigned char> raw, unsigned char* into) {
        next_section_ = into;
        return sections_.add(static_cast<format::SectionKind>(kind), raw.data(), raw.size(), 0)
                   ? static_cast<uint64_t>(next_section_ - into)
                   : 0;
    }

    void clear_staged() {
        work_->staged_bytes = 0;
        work_->index.clear();
    }

    // Another process writes now, from where the segment says.
    void forget() {
        std::memset(work_->readings, 0, sizeof(work_->readings));
        clear_staged();
        written_ns_ = 0;
    }

    // Returns when to look again.
    uint64_t look(bool saves) {
        const uint64_t now_ns = monotonic_now_ns();
        written_ns_ = written_ns_ == 0 ? now_ns - head_start_ns() : written_ns_;
        const bool is_due = saves || now_ns - written_ns_ >= period_ns_;
        uint64_t pause_ns = std::min(kLookNs, period_ns_);
        const std::span<JobProcess> processes = job_processes();
        for (size_t place = 0; place < processes.size(); ++place) {
            if (read(processes[place], work_->readings[place], is_due)) {
                pause_ns = std::min(pause_ns, kQuickLookNs);
            }
        }
        if (is_due) {
            write();
            written_ns_ = now_ns;
        }
        return pause_ns;
    }

    // Nodes start at once, and write one after the other.
    uint64_t head_start_ns() const {
        const Identity& identity = session_.identity;
        const bool known = identity.rank > 0 && identity.world_size > identity.rank;
        return known ? period_ns_ / static_cast<uint64_t>(identity.world_size) * static_cast<uint64_t>(identity.rank)
                     : 0;
    }

    // Takes what is new of a ring, once it is half full or where all is wanted. True: it fills quickly.
    bool read(JobProcess& process, Reading& reading, bool all) {
        const JobState state = process.state.load(std::memory_order_acquire);
        if (state == JobState::kFree || state == JobState::kReplaced || !tail_.open(process)) {
            return false;
        }
        if (reading.start_ticks != process.start_ticks) {
            reading = {process.start_ticks, process.journaled.load(std::memory_order_relaxed),
                       process.journaled_calls.load(std::memory_order_relaxed),
                       process.journaled_readings.load(std::memory_order_relaxed), format::ProcessState::kRunning};
        }
        const bool is_half_fresh = tail_.markers().is_half_fresh(reading.next_marker);
        const bool calls_go_round = tail_.calls().is_half_fresh(reading.next_call);
        if (!all && !is_half_fresh && !calls_go_round) {
            return false;
        }
        const uint64_t fresh = tail_.markers().fresh(reading.next_marker);
        take_all(reading, calls_go_round || state != JobState::kRunning);
        return !all && fresh > tail_.markers().slots() / 4 * 3;
    }

    void take_all(Reading& reading, bool with_open_steps) {
        uint64_t next_reading = reading.next_reading;
        std::span<format::HealthExtremes> health = sum_health(tail_, next_reading, work_->steps);
        for (;;) {
            uint64_t next_call = reading.next_call;
            format::StepSums sums = sum_steps(tail_, next_call, with_open_steps, work_->steps);
            sums.health = health;
            const bool has_more =
                tail_.markers().fresh(reading.next_marker) != 0 || !sums.steps.empty() || tells_end(reading);
            if (has_more && !take(reading, sums)) {
                return;
            }
            reading.next_call = next_call;
            if (!has_more) {
                return;
            }
            reading.next_reading = next_reading;
            health = {};
        }
    }

    // How a process ended is in the header of its last block, which may have nothing else. Of a process that marks
    // nothing there is no journal.
    bool tells_end(const Reading& reading) const {
        return tail_.header().state != reading.state && (reading.next_marker != 0 || reading.next_call != 0);
    }

    // One block. False: there is nothing more to take now.
    bool take(Reading& reading, const format::StepSums& sums) {
        if (kStagedBytes - kIndexRoomBytes - work_->staged_bytes < kMostSectionBytes || work_->index.is_full()) {
            write();
        }
        const uint64_t before = reading.next_marker;
        const size_t got =
            tail_.read(tail_.markers(), reading.next_marker, work_->markers, format::kJournalBlockMarkers);
        if (got == 0 && sums.steps.empty() && !tells_end(reading)) {
            return reading.next_marker != before;
        }
        const uint64_t first = reading.next_marker;
        const size_t packed = work_->block.pack(tail_.header(), {first, {work_->markers, got}}, sums, tail_.words());
        if (got != 0 && !tail_.holds(tail_.markers(), first)) {
            return false;  // overwritten meanwhile, perhaps in part: the next look finds where the ring begins now
        }
        const std::span<const unsigned char> bytes = work_->block.bytes();
        if (!bytes.empty()) {
            const uint64_t size_bytes = add_section(format::JournalSection::kBlock, bytes,
                                                    work_->staged + kIndexRoomBytes + work_->staged_bytes);
            if (size_bytes != 0) {
                work_->index.add(tail_.header(), work_->block.row(), size_bytes);
            }
            work_->staged_bytes += size_bytes;
        }
        reading.next_marker += bytes.empty() ? got : packed;
        reading.state = tail_.header().state;
        return true;
    }

    // The blocks, and in front of them what each is.
    bool append_staged() {
        const std::span<const unsigned char> index = work_->index.pack();
        const uint64_t index_bytes =
            index.empty() ? 0 : add_section(format::JournalSection::kIndex, index, work_->index_section);
        unsigned char* const begin = work_->staged + kIndexRoomBytes - index_bytes;
        std::memcpy(begin, work_->index_section, index_bytes);
        return work_->files.append(begin, index_bytes + work_->staged_bytes);
    }

    // What cannot be written is lost: the rings go on.
    void write() {
        if (work_->staged_bytes != 0) {
            if (!append_staged()) {
                warn_once("the journal cannot be written to %s (%s): markers are kept in the rings alone",
                          session_.config.dir, error_text(errno));
            }
            clear_staged();
        }
        const std::span<JobProcess> processes = job_processes();
        for (size_t place = 0; place < processes.size(); ++place) {
            const Reading& reading = work_->readings[place];
            if (reading.start_ticks == processes[place].start_ticks && reading.start_ticks != 0) {
                processes[place].journaled.store(reading.next_marker, std::memory_order_relaxed);
                processes[place].journaled_calls.store(reading.next_call, std::memory_order_relaxed);
                processes[place].journaled_readings.store(reading.next_reading, std::memory_order_relaxed);
            }
        }
    }

    const Session& session_;
    uint64_t period_ns_;  // from write to write
    Workshop* work_ = nullptr;
    format::SectionWriter sections_{nullptr, 0, nullptr, nullptr};
    unsigned char* next_section_ = nullptr;
    RingTail tail_;
    uint64_t written_ns_ = 0;
};

void run_journal(void* session) {
    Journal journal(*static_cast<const Session*>(session));
    if (journal.start()) {
        journal.run();
    }
    failed.store(true, std::memory_order_release);
}

bool start_journal(Session& session) {
    if (!started.exchange(true, std::memory_order_acq_rel) &&
        !start_own_thread("titan-journal", run_journal, &session)) {
        failed.store(true, std::memory_order_release);
    }
    return !failed.load(std::memory_order_acquire);
}

void wake_journal() {
    wake.fetch_add(1, std::memory_order_release);
    futex_wake_all(wake);
}

// Labels do not count, which the tracer sets itself, nor do NVTX ranges, which libraries have: no place of the program
// calls those.
bool has_marked(Session& session) {
    uint64_t next = looked_at.load(std::memory_order_relaxed);
    bool found = false;
    session.markers.visit_since(next, [&found](const format::MarkerEntry& marker) {
        found = marker.site != 0 && marker.kind != format::MarkerKind::kLabel;
        return !found;
    });
    looked_at.store(next, std::memory_order_relaxed);
    return found;
}

// A job that marks nothing gets no thread and no file.
bool keeps_journal(Session& session) {
    if (session.config.journal_mib == 0 || !in_job()) {
        return false;
    }
    if (!node_has_markers() && has_marked(session)) {
        note_markers();
    }
    return node_has_markers();
}

}  // namespace

void tend_journal(Session& session) {
    if (!keeps_journal(session)) {
        return;
    }
    const bool leads = has_lease();
    if (leads) {
        start_journal(session);
    }
    if (is_writer.exchange(leads, std::memory_order_acq_rel) != leads) {
        wake_journal();
    }
}

void save_journal(Session& session, bool is_last) {
    if (!keeps_journal(session) || (!is_last && !is_writer.load(std::memory_order_acquire)) ||
        !start_journal(session)) {
        return;
    }
    const uint32_t wanted = saves_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
    wake_journal();
    futex_await(saves_done, monotonic_now_ns() + kSaveNs, [wanted](uint32_t done) { return reached(done, wanted); });
}

void reset_journal() {
    looked_at.store(0, std::memory_order_relaxed);
    is_writer.store(false, std::memory_order_relaxed);
    started.store(false, std::memory_order_relaxed);
    failed.store(false, std::memory_order_relaxed);
    saves_wanted.store(0, std::memory_order_relaxed);
    saves_done.store(0, std::memory_order_relaxed);
}

}  // namespace titan::tracer

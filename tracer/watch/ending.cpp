#include "ending.h"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/text.h"
#include "job.h"
#include "signals.h"
#include "tracer/record.h"
#include "watch.h"

namespace titan::tracer {
namespace {

constexpr uint64_t kSameRequestSeconds = 60;
constexpr uint64_t kExitWaitNs = 5'000'000'000;

constinit std::atomic<bool> watching{false};
constinit std::atomic<int> quick_exit_status{-1};
constinit std::atomic<bool> left{false};
constinit SaveWork save_work = nullptr;

void note_exit(format::RingHeader& header, int status) {
    if (status >= 0) {
        header.exit_status_next = (status & 0xff) + 1;  // the part that a parent sees
    }
    header.exit_ticks = now_ticks();
}

bool exited_in_failure(const format::RingHeader& header) { return header.exit_status_next > 1; }

void on_exit_status(int status, void*) {
    if (Session* const current = session(); current != nullptr && current->identity.pid == getpid()) {
        note_exit(*current->ring_file.header, status);
    }
}

// The program's handlers that were registered before the session come after this one.
void on_quick_exit() { on_process_exit(quick_exit_status.load(std::memory_order_relaxed)); }

}  // namespace

bool is_asked_to_end(const format::RingHeader& header) {
    const uint64_t asked_ticks = __atomic_load_n(&header.end_ticks, __ATOMIC_ACQUIRE);
    return asked_ticks != 0 && now_ticks() - asked_ticks < kSameRequestSeconds * header.ticks_per_second;
}

void note_end_signal(format::RingHeader& header, int number, int32_t sender) {
    if (is_asked_to_end(header)) {
        return;
    }
    std::atomic_ref(header.end_sender).store(sender, std::memory_order_relaxed);
    std::atomic_ref(header.end_signal).store(number, std::memory_order_relaxed);
    std::atomic_ref(header.end_ticks).store(now_ticks(), std::memory_order_release);
}

void start_ending(SaveWork save) {
    left.store(false, std::memory_order_relaxed);
    save_work = save;
    if (!watching.exchange(true, std::memory_order_relaxed)) {
        on_exit(on_exit_status, nullptr);
        at_quick_exit(on_quick_exit);
    }
}

void save_what_is_left(Session& session, bool is_last) {
    if (save_work != nullptr) {
        save_work(session, is_last);
    }
}

void note_quick_exit(int status) { quick_exit_status.store(status, std::memory_order_relaxed); }

void on_process_exit(int status) {
    Session* current = session();
    // A vfork child shares our memory, and ends with _exit when its exec fails.
    if (current == nullptr || current->identity.pid != getpid() || left.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    if (exiting_from_crash()) {
        return;
    }
    format::RingHeader& header = *current->ring_file.header;
    note_exit(header, status);
    std::atomic_ref(header.state).store(format::ProcessState::kExited, std::memory_order_release);
    request_dump(format::DumpReason::kExit, "");
    if (exited_in_failure(header)) {
        char detail[32];
        format_text(detail, sizeof(detail), "exit status %d", header.exit_status_next - 1);
        request_dump(format::DumpReason::kEnd, detail);
    }
    const bool dumped = wait_for_dump(kExitWaitNs);
    if (exited_in_failure(header)) {
        set_job_state(dumped                    ? JobState::kCrashed
                      : is_asked_to_end(header) ? JobState::kAskedToEnd
                                                : JobState::kDead);  // its ring stays
    } else {
        const bool is_last = begin_leaving();
        save_what_is_left(*current, is_last);
        leave_job(is_last);
    }
}

// exec: the process lives on, and nothing of us in it. No death.
BeforeExec note_exec() {
    Session* const current = session();
    // A child of vfork shares our memory.
    if (current == nullptr || current->identity.pid != getpid()) {
        return {};
    }
    format::RingHeader& header = *current->ring_file.header;
    auto running = format::ProcessState::kRunning;
    if (!std::atomic_ref(header.state).compare_exchange_strong(running, format::ProcessState::kExited)) {
        return {};
    }
    note_exit(header, -1);
    return {true, static_cast<uint32_t>(exchange_job_state(JobState::kExited))};
}

void note_exec_failed(const BeforeExec& before) {
    if (Session* const current = session(); before.was_recording && current != nullptr) {
        set_job_state(static_cast<JobState>(before.job_state));
        format::RingHeader& header = *current->ring_file.header;
        header.exit_ticks = 0;
        std::atomic_ref(header.state).store(format::ProcessState::kRunning, std::memory_order_release);
    }
}

}  // namespace titan::tracer

// The thread that reads the marks of launches and tells the entries: the other half of gpu_progress.h.
#include <time.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "gpu_progress.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::GpuProgressMethod;

constexpr uint64_t kBusyPauseNs = 2'000'000;
constexpr uint64_t kIdlePauseNs = 20'000'000;
constexpr uint32_t kLooksBeforeIdle = 50;
constexpr uint64_t kLastLookNs = 100'000'000;
// How long an abort waits for calls that have only just begun: at the end of a healthy job it may come before the last
// call has finished. A call that is older hangs.
constexpr uint64_t kEndingGraceNs = 100'000'000;
constexpr uint64_t kHangingNs = 1'000'000'000;
constexpr uint64_t kAnswerNs = 1'000'000'000;
constexpr uint64_t kAnswerOfSilentNs = 10'000'000;
// Event times are floats in milliseconds: far from their anchor they get coarse, and clocks drift.
constexpr uint64_t kAnchorAgeNs = 2'000'000'000;
constexpr uint64_t kDriftParts = 20'000;  // 50 ppm

void pause_ns(uint64_t nanoseconds) {
    const timespec pause = timespec_of(nanoseconds);
    nanosleep(&pause, nullptr);
}

void note_finished(Communicators& communicators, format::CollectiveEntry& entry) {
    store_field(entry.state, CallState::kFinished);
    if (entry.communicator == format::kNoIndex) {
        return;
    }
    Communicator& communicator = communicators.at(entry.communicator);
    if (format::is_collective(entry.kind) && entry.sequence != format::kNoSequence &&
        entry.sequence >= communicator.record->finished) {
        store_field(communicator.record->finished, entry.sequence + 1);
    }
}

}  // namespace

void GpuProgress::run() {
    // Stays set: queries of this thread must never invalidate a capture of another thread.
    int mode = kCaptureModeRelaxed;
    recording_->driver.exchange_capture_mode(&mode);
    uint32_t idle_looks = 0;
    while (!stopping_.load(std::memory_order_acquire)) {
        const uint32_t asked = asked_.load(std::memory_order_acquire);
        poll_once();
        publish_oldest();
        if (asked != looked_.load(std::memory_order_relaxed)) {
            report_unfinished(asked);
            looked_.store(asked, std::memory_order_release);
            futex_wake_all(looked_);
        }
        // Between two steps it goes on looking as often: the next calls are seen as soon as these were.
        idle_looks = outstanding_count_ > 0 ? 0 : std::min(idle_looks + 1, kLooksBeforeIdle);
        futex_wait(asked_, asked, idle_looks < kLooksBeforeIdle ? kBusyPauseNs : kIdlePauseNs);
    }
    stopped_.store(true, std::memory_order_release);
}

void GpuProgress::stop() {
    constexpr int kMaxRounds = 50;  // 2 ms each: a thread that hangs in the driver must not keep the process
    look_now(kLastLookNs);
    active_.store(false, std::memory_order_release);
    stopping_.store(true, std::memory_order_release);
    for (int round = 0; round < kMaxRounds && !stopped_.load(std::memory_order_acquire); ++round) {
        pause_ns(kBusyPauseNs);
    }
}

bool GpuProgress::look_now(uint64_t limit_ns, uint32_t* look) {
    if (!active()) {
        return false;
    }
    const uint32_t wanted = asked_.fetch_add(1, std::memory_order_acq_rel) + 1;
    futex_wake_all(asked_);
    bool answered = false;
    futex_await(looked_, monotonic_now_ns() + limit_ns, [&](uint32_t looked) {
        answered = reached(looked, wanted);
        return answered || stopping_.load(std::memory_order_acquire);
    });
    if (answered && look != nullptr) {
        *look = wanted;
    }
    return answered;
}

bool GpuProgress::hold() {
    holds_.fetch_add(1, std::memory_order_acq_rel);
    return look_now(kLastLookNs);
}

void GpuProgress::release(const EndingContexts& ended, bool quiet) {
    contexts_.forget(ended, quiet);
    holds_.fetch_sub(1, std::memory_order_acq_rel);
}

bool GpuProgress::unfinished(const Communicator& communicator) {
    const uint64_t deadline_ns = monotonic_now_ns() + kEndingGraceNs;
    while (active()) {
        uint32_t look = 0;
        const bool silent = silent_.load(std::memory_order_relaxed);
        const bool answered = look_now(silent ? kAnswerOfSilentNs : kAnswerNs, &look);
        silent_.store(!answered, std::memory_order_relaxed);
        if (!answered) {
            return active();  // the thread hangs in the driver, and who hangs there has not finished
        }
        if (!reached(communicator.unfinished_look.load(std::memory_order_acquire), look)) {
            return false;
        }
        const uint64_t since_ticks = communicator.unfinished_since_ticks.load(std::memory_order_relaxed);
        if (ticks_to_ns(now_ticks() - since_ticks) > kHangingNs || monotonic_now_ns() >= deadline_ns) {
            return true;
        }
        pause_ns(kBusyPauseNs);
    }
    return false;
}

// Stamps the communicators whose calls the look has found unfinished. Calls whose entries were overwritten are behind
// thousands of others, which speak for them.
void GpuProgress::report_unfinished(uint32_t look) {
    for (uint32_t i = 0; i < outstanding_count_; ++i) {
        const Watched& watched = outstanding_[i];
        for (uint64_t ticket = watched.calls.first_ticket; ticket <= watched.calls.last_ticket; ++ticket) {
            format::CollectiveEntry* const entry = recording_->collectives.find(ticket);
            if (entry == nullptr || load_field(entry->launch) != watched.launch.number_plus_one ||
                entry->communicator == format::kNoIndex) {
                continue;
            }
            Communicator& communicator = communicators_->at(entry->communicator);
            if (communicator.unfinished_look.load(std::memory_order_relaxed) != look) {
                communicator.unfinished_since_ticks.store(watched.calls.entered_ticks, std::memory_order_relaxed);
                communicator.unfinished_look.store(look, std::memory_order_release);
            }
        }
    }
}

void GpuProgress::poll_once() {
    while (outstanding_count_ < kQueuedLaunches && submitted_.pop(outstanding_[outstanding_count_])) {
        ++outstanding_count_;
    }
    // A stream runs in order: behind an unfinished launch of a stream nothing else of it is asked for.
    constexpr uint32_t kMaxWaiting = 16;
    const void* waiting[kMaxWaiting];
    uint32_t waiting_count = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < outstanding_count_ && !stopping_.load(std::memory_order_relaxed); ++i) {
        Watched watched = outstanding_[i];
        bool behind = false;
        for (uint32_t w = 0; w < waiting_count; ++w) {
            behind = behind || waiting[w] == watched.launch.stream;
        }
        if (!behind) {
            const LaunchStatus status = look(watched);
            note(watched, status);
            if (status.stage >= Stage::kFinished) {
                give_events(watched.launch);
                continue;
            }
            watched.started = status.stage == Stage::kStarted;
            if (waiting_count < kMaxWaiting) {
                waiting[waiting_count++] = watched.launch.stream;
            }
        }
        outstanding_[kept++] = watched;
    }
    outstanding_count_ = kept;
}

GpuProgress::LaunchStatus GpuProgress::look(Watched& watched) {
    if (watched.launch.finish_event == nullptr) {
        const LaunchStatus status = look_at_marks(watched, now_ticks());
        const bool may_come = status.stage == Stage::kFinished || row_of(watched.launch) != nullptr;
        return may_come ? status : LaunchStatus{Stage::kLost, 0, 0};
    }
    if (holds_.load(std::memory_order_acquire) != 0) {
        return {watched.started ? Stage::kStarted : Stage::kWaiting, 0, 0};
    }
    return row_of(watched.launch) != nullptr ? look_at_events(watched) : LaunchStatus{Stage::kLost, 0, 0};
}

GpuProgress::LaunchStatus GpuProgress::look_at_marks(const Watched& watched, uint64_t now) const {
    const uint64_t number = watched.launch.number_plus_one;
    format::LaunchMarks& row = marks_[(number - 1) & mark_mask_];
    const auto written = [](uint64_t& mark) { return std::atomic_ref(mark).load(std::memory_order_acquire); };
    // A higher number is of a later launch in the same row, which is reused only after thousands of launches.
    if (written(row.finished) >= number) {
        return {Stage::kFinished, watched.started ? 0 : now, now};
    }
    if (written(row.started) >= number) {
        return {Stage::kStarted, now, 0};
    }
    return {Stage::kWaiting, 0, 0};
}

GpuProgress::LaunchStatus GpuProgress::look_at_events(Watched& watched) {
    const DriverApi& driver = recording_->driver;
    const Launch& launch = watched.launch;
    const ContextScope scope(driver, launch.row->context);
    const int finished = driver.event_query(launch.finish_event);
    const uint64_t now = now_ticks();
    if (finished == kCudaSuccess) {
        LaunchStatus status{Stage::kFinished, watched.started ? 0 : now, now};
        if (method_.load(std::memory_order_relaxed) == GpuProgressMethod::kTiming) {
            add_event_times(watched, status);
        }
        return status;
    }
    if (finished != kCudaErrorNotReady) {
        return {Stage::kLost, 0, 0};  // its context is gone: it will never tell
    }
    if (!watched.started && driver.event_query(launch.start_event) == kCudaSuccess) {
        return {Stage::kStarted, now, 0};
    }
    return {watched.started ? Stage::kStarted : Stage::kWaiting, 0, 0};
}

// The device's own times instead of when we looked: exact to each other, and to the host's clock within about 0.1 ms
// once a few completions were seen soon after they happened.
void GpuProgress::add_event_times(Watched& watched, LaunchStatus& status) {
    ContextRow* const row = row_of(watched.launch);
    const auto elapsed_ticks = [&](void* from, void* to, uint64_t& ticks) {
        float milliseconds = 0;
        if (recording_->driver.event_elapsed_time(&milliseconds, from, to) != kCudaSuccess || milliseconds < 0) {
            return false;
        }
        ticks = ns_to_ticks(static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6));
        return true;
    };
    uint64_t duration_ticks = 0;
    if (row == nullptr || !elapsed_ticks(watched.launch.start_event, watched.launch.finish_event, duration_ticks)) {
        return;
    }
    EventAnchor& anchor = row->anchor;
    uint64_t since_ticks = 0;
    if (anchor.event == nullptr || !elapsed_ticks(anchor.event, watched.launch.finish_event, since_ticks)) {
        anchor.ticks = status.finished_ticks;
        since_ticks = 0;
    }
    if (status.finished_ticks - since_ticks < anchor.ticks) {
        anchor.ticks = status.finished_ticks - since_ticks;
    }
    status.finished_ticks = anchor.ticks + since_ticks;
    status.started_ticks = status.finished_ticks - duration_ticks;
    if (anchor.event == nullptr || since_ticks > ns_to_ticks(kAnchorAgeNs)) {
        // The anchor keeps this event and gives its old one to the pool. Clocks drift apart: the bound is loosened by
        // as much, and tightened again by the completions to come.
        std::swap(anchor.event, watched.launch.finish_event);
        anchor.ticks = status.finished_ticks + since_ticks / kDriftParts;
    }
}

void GpuProgress::note(const Watched& watched, const LaunchStatus& status) {
    if (status.stage == Stage::kLost) {
        note_lost(watched);
        return;
    }
    const bool news = status.stage == Stage::kFinished || (status.stage == Stage::kStarted && !watched.started);
    for (uint64_t ticket = watched.calls.first_ticket; news && ticket <= watched.calls.last_ticket; ++ticket) {
        format::CollectiveEntry* const entry = recording_->collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(*recording_, format::Loss::kLateUpdates);
            continue;
        }
        const CallState state = load_field(entry->state);
        if (load_field(entry->launch) != watched.launch.number_plus_one ||
            (state != CallState::kPending && state != CallState::kStarted)) {
            continue;
        }
        if (status.started_ticks != 0) {
            store_field(entry->gpu_started_ticks, status.started_ticks);
        }
        if (status.stage == Stage::kStarted) {
            store_field(entry->state, CallState::kStarted);
            continue;
        }
        store_field(entry->gpu_finished_ticks, status.finished_ticks);
        note_finished(*communicators_, *entry);
    }
}

// Its context has ended: nobody can tell whether the calls ended before it.
void GpuProgress::note_lost(const Watched& watched) {
    count_loss(*recording_, format::Loss::kProgressSkipped);
    for (uint64_t ticket = watched.calls.first_ticket; ticket <= watched.calls.last_ticket; ++ticket) {
        format::CollectiveEntry* const entry = recording_->collectives.find(ticket);
        if (entry != nullptr && load_field(entry->launch) == watched.launch.number_plus_one &&
            (load_field(entry->state) == CallState::kPending || load_field(entry->state) == CallState::kStarted)) {
            store_field(entry->state, CallState::kEnqueued);
        }
    }
}

void GpuProgress::publish_oldest() {
    const bool any = outstanding_count_ > 0;
    oldest_entered_ticks_.store(any ? outstanding_[0].calls.entered_ticks : 0, std::memory_order_relaxed);
    oldest_ticket_plus_one_.store(any ? outstanding_[0].calls.first_ticket + 1 : 0, std::memory_order_release);
}

}  // namespace titan::tracer

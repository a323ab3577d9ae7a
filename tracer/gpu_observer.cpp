// The thread that reads the marks of launches and tells the entries: the other half of gpu_progress.h.
#include <time.h>

#include <utility>

#include "clock.h"
#include "gpu_progress.h"
#include "session.h"

namespace titan::tracer {

namespace {

using format::CallState;
using format::GpuProgressMethod;

constexpr long kBusyPause_ns = 2'000'000;
constexpr long kIdlePause_ns = 20'000'000;
// Event times are floats in milliseconds: far from their anchor they get coarse, and clocks drift.
constexpr uint64_t kAnchorAge_ns = 2'000'000'000;
constexpr uint64_t kDriftParts = 20'000;  // 50 ppm

void pause_ns(long nanoseconds) {
    const timespec pause{.tv_sec = 0, .tv_nsec = nanoseconds};
    nanosleep(&pause, nullptr);
}

void note_finished(Session& session, format::CollectiveEntry& entry) {
    store_field(entry.state, CallState::kFinished);
    if (entry.communicator == format::kNoIndex) {
        return;
    }
    Communicator& communicator = session.communicators.at(entry.communicator);
    communicator.in_flight.fetch_sub(1, std::memory_order_relaxed);
    if (format::is_collective(entry.kind) && entry.sequence != format::kNoSequence &&
        entry.sequence >= communicator.record->finished) {
        store_field(communicator.record->finished, entry.sequence + 1);
    }
}

}  // namespace

void GpuProgress::run() {
    // For good: this thread's queries must never invalidate a capture that another thread has under way.
    int mode = kCaptureModeRelaxed;
    session_->driver.exchange_capture_mode(&mode);
    while (!stopping_.load(std::memory_order_acquire)) {
        poll_once();
        publish_oldest();
        pause_ns(outstanding_count_ > 0 ? kBusyPause_ns : kIdlePause_ns);
    }
    stopped_.store(true, std::memory_order_release);
}

void GpuProgress::stop() {
    constexpr int kMaxRounds = 50;  // of 2 ms: a thread that hangs in the driver must not keep the process
    active_.store(false, std::memory_order_release);
    stopping_.store(true, std::memory_order_release);
    for (int round = 0; round < kMaxRounds && !stopped_.load(std::memory_order_acquire); ++round) {
        pause_ns(kBusyPause_ns);
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
            const Sight sight = look(watched);
            note(watched, sight);
            if (sight.stage >= Stage::kFinished) {
                give_events(watched.launch);
                continue;
            }
            watched.started = sight.stage == Stage::kStarted;
            if (waiting_count < kMaxWaiting) {
                waiting[waiting_count++] = watched.launch.stream;
            }
        }
        outstanding_[kept++] = watched;
    }
    outstanding_count_ = kept;
}

GpuProgress::Sight GpuProgress::look(Watched& watched) {
    if (watched.launch.finish_event == nullptr) {
        return look_at_marks(watched, now_ticks());
    }
    return look_at_events(watched);
}

GpuProgress::Sight GpuProgress::look_at_marks(const Watched& watched, uint64_t now) const {
    const uint64_t number = watched.launch.number_plus_one;
    format::LaunchMarks& row = marks_[(number - 1) % mark_rows_];
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

GpuProgress::Sight GpuProgress::look_at_events(Watched& watched) {
    const DriverApi& driver = session_->driver;
    const Launch& launch = watched.launch;
    const ContextScope scope(driver, launch.context);
    const int finished = driver.event_query(launch.finish_event);
    const uint64_t now = now_ticks();
    if (finished == kCudaSuccess) {
        Sight sight{Stage::kFinished, watched.started ? 0 : now, now};
        if (method_.load(std::memory_order_relaxed) == GpuProgressMethod::kTiming) {
            add_event_times(watched, sight);
        }
        return sight;
    }
    if (finished != kCudaErrorNotReady) {
        return {Stage::kLost, 0, 0};  // its context is gone: it will never tell
    }
    if (!watched.started && driver.event_query(launch.start_event) == kCudaSuccess) {
        return {Stage::kStarted, now, 0};
    }
    return {watched.started ? Stage::kStarted : Stage::kWaiting, 0, 0};
}

// The device's own times instead of when we looked: exact to each other, and to the host's clock within about 0.1 ms once a
// few completions were seen soon after they happened.
void GpuProgress::add_event_times(Watched& watched, Sight& sight) {
    ContextRow* const row = contexts_.row_of(watched.launch.context);
    const auto elapsed_ticks = [&](void* from, void* to, uint64_t& ticks) {
        float milliseconds = 0;
        if (session_->driver.event_elapsed_time(&milliseconds, from, to) != kCudaSuccess || milliseconds < 0) {
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
        anchor.ticks = sight.finished_ticks;
        since_ticks = 0;
    }
    if (sight.finished_ticks - since_ticks < anchor.ticks) {
        anchor.ticks = sight.finished_ticks - since_ticks;
    }
    sight.finished_ticks = anchor.ticks + since_ticks;
    sight.started_ticks = sight.finished_ticks - duration_ticks;
    if (anchor.event == nullptr || since_ticks > ns_to_ticks(kAnchorAge_ns)) {
        // The anchor keeps this event and gives its old one to the pool. Clocks drift apart: the bound is loosened by as
        // much, and tightened again by the completions to come.
        std::swap(anchor.event, watched.launch.finish_event);
        anchor.ticks = sight.finished_ticks + since_ticks / kDriftParts;
    }
}

void GpuProgress::note(const Watched& watched, const Sight& sight) {
    if (sight.stage == Stage::kLost) {
        count_loss(*session_, format::Loss::kProgressSkipped);
        return;
    }
    const bool news = sight.stage == Stage::kFinished || (sight.stage == Stage::kStarted && !watched.started);
    for (uint64_t ticket = watched.calls.first_ticket; news && ticket <= watched.calls.last_ticket; ++ticket) {
        format::CollectiveEntry* const entry = session_->collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(*session_, format::Loss::kLateUpdates);
            continue;
        }
        const CallState state = load_field(entry->state);
        if (load_field(entry->launch) != watched.launch.number_plus_one ||
            (state != CallState::kPending && state != CallState::kStarted)) {
            continue;
        }
        if (sight.started_ticks != 0) {
            store_field(entry->gpu_started_ticks, sight.started_ticks);
        }
        if (sight.stage == Stage::kStarted) {
            store_field(entry->state, CallState::kStarted);
            continue;
        }
        store_field(entry->gpu_finished_ticks, sight.finished_ticks);
        note_finished(*session_, *entry);
    }
}

void GpuProgress::publish_oldest() {
    const bool any = outstanding_count_ > 0;
    oldest_entered_ticks_.store(any ? outstanding_[0].calls.entered_ticks : 0, std::memory_order_relaxed);
    oldest_ticket_plus_one_.store(any ? outstanding_[0].calls.first_ticket + 1 : 0, std::memory_order_release);
}

}  // namespace titan::tracer

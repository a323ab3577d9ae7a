// Observes the progress of collectives on the device: a pair of marks on the stream around each launch, and a thread of
// our own that reads them. A launch is one NCCL call, one NCCL group on one stream, or one graph launch.
//
// Methods (TITANTRACE_GPU_PROGRESS, see docs/architecture/device.md for the choice):
//   writes   the stream itself writes the launch's number into the ring (LaunchMarks): nobody asks the driver anything,
//   and
//            the ring knows the device's state also when the driver hangs or the process is killed
//   events   pooled events without times, queried by the thread
//   timing   pooled events with times: started and finished are the device's own
// Unless the user has chosen one, launches have writes or events, as the budget allows (observing.h).
// Where the driver refuses writes, events take their place. Nothing is ever put on a stream that is being captured.
// The thread that reads is not the thread that dumps: in a hang the driver may block it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "communicators.h"
#include "formats/layout/ring_layout.h"
#include "gpu_contexts.h"
#include "observing.h"
#include "recording.h"
#include "tracer/record.h"

namespace titan::tracer {

// The entries of the collectives ring that a launch stands for: those in [first, last] that carry its number.
struct LaunchedCalls {
    uint64_t first_ticket;
    uint64_t last_ticket;
    uint64_t entered_ticks;
};

struct PendingCollective {
    uint64_t entered_ticks;
    uint64_t ticket;
};

class GpuProgress {
  public:
    // Starts observing when libcuda is loaded and the calling thread has a context; true when that has begun now.
    // Called with each new communicator, cold.
    bool start(Recording& recording, Communicators& communicators);

    bool active() const { return active_.load(std::memory_order_acquire); }

    // Puts the mark before a launch, on a stream that is not being captured. `launch.number_plus_one` stays 0 if it is
    // not observed. hot but for the driver's own work.
    void begin(Launch& launch, const void* stream);
    // The mark behind an observed launch; false where nobody will tell how the calls end. A launch that was begun and
    // did not happen is cancelled instead.
    bool end(Launch& launch, const LaunchedCalls& calls);
    void cancel(const Launch& launch);

    // The oldest observed call that has not been seen finished. any-thread; never calls CUDA.
    bool oldest_pending(PendingCollective& pending) const;

    // Are calls of this communicator on the device and not finished? As the marks tell now, not when the thread last
    // looked; calls that have only just begun get a moment to finish. cold, any-thread, bounded.
    bool unfinished(const Communicator& communicator);

    // The thread looks at all marks at once, so that the entries tell how things stand; false when it did not get to it
    // (it is not there, or the driver hangs). Calls no CUDA. any-thread.
    bool look_now(uint64_t limit_ns, uint32_t* look = nullptr);

    // The program is about to end contexts: the observing thread leaves the driver alone until they are released. False
    // when it has not said so in time. Partners; cold, any-thread.
    bool hold();
    void release(const EndingContexts& ended, bool quiet);

    // The observing thread's body.
    void run();

    // The process is about to take the driver down: no call into it from now on. Waits for the thread, bounded.
    void stop();

  private:
    struct Watched {
        Launch launch;
        LaunchedCalls calls;
        bool started;
    };
    enum class Stage : uint8_t { kWaiting, kStarted, kFinished, kLost };
    struct LaunchStatus {
        Stage stage;
        uint64_t started_ticks;  // 0 unknown
        uint64_t finished_ticks;
    };

    bool register_marks();
    int write_mark(const Launch& launch, const ContextRow& row, size_t mark) const;
    bool mark_start(Launch& launch, ContextRow& row);
    bool mark_finish(Launch& launch, ContextRow& row) const;
    bool record_event(ContextRow& row, void*& event, const void* stream) const;
    void give_events(const Launch& launch);

    void poll_once();
    LaunchStatus look(Watched& watched);
    LaunchStatus look_at_marks(const Watched& watched, uint64_t now) const;
    LaunchStatus look_at_events(Watched& watched);
    void add_event_times(Watched& watched, LaunchStatus& status);
    void note(const Watched& watched, const LaunchStatus& status);
    void note_lost(const Watched& watched);
    void publish_oldest();
    void report_unfinished(uint32_t look);

    Recording* recording_;
    Communicators* communicators_;
    std::atomic<format::GpuProgressMethod> method_;
    std::atomic<bool> started_;
    std::atomic<bool> active_;
    std::atomic<bool> stopping_;
    std::atomic<bool> stopped_;
    std::atomic<uint32_t> asked_;   // looks; the thread sleeps on it
    std::atomic<uint32_t> looked_;  // up to which number they are done
    std::atomic<uint32_t> holds_;   // not released yet
    std::atomic<bool> silent_;      // the thread did not answer the last time
    std::atomic<uint64_t> launches_;
    std::atomic<uint64_t> oldest_ticket_plus_one_;
    std::atomic<uint64_t> oldest_entered_ticks_;
    format::LaunchMarks* marks_;
    uint64_t mark_mask_;  // rows of marks - 1: a power of two, as all tables of the ring that are cycled through
    GpuContexts contexts_;
    Observing observing_;
    BoundedQueue<Watched, kQueuedLaunches> submitted_;

    // Only the observing thread touches these.
    Watched* outstanding_;
    uint32_t outstanding_count_;
};

// The marks. Inlined into the paths of a call, a group and a graph launch: the layers between would cost a fifth of
// them.

// The stream writes the launch's number into its row of marks. An error where the driver gave the context no address of
// them.
[[gnu::always_inline]] inline int GpuProgress::write_mark(const Launch& launch, const ContextRow& row,
                                                          size_t mark) const {
    const uint64_t number = launch.number_plus_one;
    const uint64_t address = row.marks_address + ((number - 1) & mark_mask_) * sizeof(format::LaunchMarks) + mark;
    return row.marks_address == 0
               ? kCudaErrorUnknown
               : recording_->driver.stream_write_value64(const_cast<void*>(launch.stream), address, number, 0);
}

[[gnu::always_inline]] inline bool GpuProgress::mark_start(Launch& launch, ContextRow& row) {
    if (launch.light || method_.load(std::memory_order_relaxed) != format::GpuProgressMethod::kWrites) {
        return record_event(row, launch.start_event, launch.stream);
    }
    const int status = write_mark(launch, row, offsetof(format::LaunchMarks, started));
    if (status == kCudaErrorNotSupported) [[unlikely]] {
        method_.store(format::GpuProgressMethod::kEvents, std::memory_order_relaxed);
        observing_.note_refused();
        return record_event(row, launch.start_event, launch.stream);
    }
    return status == kCudaSuccess;
}

// Both marks of a launch are of one method, also where the method changes in between.
[[gnu::always_inline]] inline bool GpuProgress::mark_finish(Launch& launch, ContextRow& row) const {
    return launch.start_event != nullptr
               ? record_event(row, launch.finish_event, launch.stream)
               : write_mark(launch, row, offsetof(format::LaunchMarks, finished)) == kCudaSuccess;
}

[[gnu::always_inline]] inline void GpuProgress::begin(Launch& launch, const void* stream) {
    launch = Launch{};
    launch.stream = stream;
    const uint64_t number = launches_.fetch_add(1, std::memory_order_relaxed);
    const Marks marks = observing_.choose(number);
    if (marks == Marks::kNone) {
        return;
    }
    const DriverApi& driver = recording_->driver;
    void* current = nullptr;
    driver.ctx_get_current(&current);
    void* const context = context_of(driver, stream, current);
    launch.foreign = context != current;
    const ContextScope scope(driver, launch.foreign ? context : nullptr);
    ContextRow* const row = contexts_.row_of(context);
    if (row != nullptr) {
        launch.number_plus_one = number + 1;
        launch.row = row;
        launch.tenancy = row->tenancy.load(std::memory_order_relaxed);
        launch.light = marks == Marks::kLight;
        if (launch.tenancy != 0 && mark_start(launch, *row)) {
            return;
        }
        give_events(launch);
        launch.number_plus_one = 0;
    }
    count_loss(*recording_, format::Loss::kProgressSkipped);
}

[[gnu::always_inline]] inline bool GpuProgress::end(Launch& launch, const LaunchedCalls& calls) {
    if (ContextRow* const row = row_of(launch)) {
        // The call has left the thread's context as it found it: NCCL and CUDA do.
        const ContextScope scope(recording_->driver, launch.foreign ? row->context.load() : nullptr);
        if (mark_finish(launch, *row) && submitted_.push_filled([&](Watched& watched) {
                watched = {launch, calls, false};
            })) {
            return true;
        }
    }
    give_events(launch);
    count_loss(*recording_, format::Loss::kProgressSkipped);
    return false;
}

}  // namespace titan::tracer

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
    // The mark behind it; false where nobody will tell how the calls end. A launch that was begun and did not happen is
    // cancelled instead.
    bool end(const Launch& launch, const LaunchedCalls& calls);
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
    bool mark(Launch& launch, ContextRow& row, bool finish);
    bool record_event(ContextRow& row, void*& event, void* stream) const;
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
    uint64_t mark_rows_;
    GpuContexts contexts_;
    Observing observing_;
    BoundedQueue<Watched, kQueuedLaunches> submitted_;

    // Only the observing thread touches these.
    Watched* outstanding_;
    uint32_t outstanding_count_;
};

}  // namespace titan::tracer

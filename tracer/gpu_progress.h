// How we learn that a collective finished on the device: the seam behind which the method can be exchanged.
//
// Method "events": after the launch an event of a pool is recorded on the collective's stream, and a thread of our own
// queries it. Never while the stream is captured into a graph: the event would become part of the graph. One event per
// stream and NCCL group. The thread that queries is not the thread that dumps: in a hang the driver may block it.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/driver_api.h"

namespace titan::tracer {

struct Session;

// Entries of the collectives ring that one event stands for: all those in [first, last] with this group (0: one call
// outside groups) and stream.
struct LaunchedCalls {
    uint64_t first_ticket;
    uint64_t last_ticket;
    uint64_t group;
    const void* stream;
    uint64_t entered_ticks;
};

enum class Observation : uint8_t { kUnknown, kWatched, kCaptured };

struct PendingCollective {
    uint64_t entered_ticks;
    uint64_t ticket;
};

class GpuProgress {
  public:
    // Starts the observing thread when libcuda is loaded. Called with each new communicator, cold.
    void start(Session& session);

    // Observes calls that were just handed to the device. hot but for the driver's own work.
    Observation observe(const LaunchedCalls& calls);

    bool active() const { return active_.load(std::memory_order_acquire); }

    // The oldest watched call that has not been seen finished. any-thread; never calls CUDA.
    bool oldest_pending(PendingCollective& pending) const;

    // The observing thread's body.
    void run();

    // The process is about to take the driver down: no call into it from now on. Waits for the thread, bounded.
    void stop();

  private:
    static constexpr uint32_t kMaxContexts = 32;
    static constexpr uint32_t kQueueSlots = 4096;

    struct Watched {
        LaunchedCalls calls;
        void* event;
        void* context;
    };
    // A bounded multi-producer queue after D. Vyukov: a slot's sequence says whose turn it is.
    template <typename T>
    struct Queue {
        struct Slot {
            std::atomic<uint64_t> sequence;
            T value;
        };
        std::atomic<uint64_t> head;
        std::atomic<uint64_t> tail;
        Slot slots[kQueueSlots];

        void start();
        bool push(const T& value);
        bool pop(T& value);
    };
    struct ContextPool {
        std::atomic<void*> context;
        Queue<void*> events;
    };

    void* take_event(void* context);
    void give_event(void* context, void* event);
    ContextPool* pool_of(void* context);
    void poll_once();
    bool is_finished(const Watched& watched);
    void publish_oldest();

    Session* session_;
    DriverApi driver_;
    std::atomic<bool> active_;
    std::atomic<bool> stopping_;
    std::atomic<bool> stopped_;
    std::atomic<uint64_t> oldest_ticket_plus_one_;
    std::atomic<uint64_t> oldest_entered_ticks_;
    Queue<Watched> submitted_;
    ContextPool* pools_[kMaxContexts];
    std::atomic<uint32_t> pool_count_;

    // Only the observing thread touches these.
    Watched* outstanding_;
    uint32_t outstanding_count_;
    void* current_context_;
};

// For the watchdog.
bool oldest_pending(PendingCollective& pending);

}  // namespace titan::tracer

// State per CUDA context for observing the device: pooled events, the address of the launch marks, and the anchor that
// converts event times to ticks.
#pragma once

#include <atomic>
#include <cstdint>

#include "bounded_queue.h"
#include "recording.h"
#include "tracer/context_end.h"
#include "tracer/driver_api.h"
#include "tracer/record.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxContexts = 32;
inline constexpr uint32_t kQueuedLaunches = 4096;

// Event times count from an event of the same context. When that one happened on the host's clock is bounded from above
// by each completion that was seen, and the smallest bound is the best. Only the observing thread touches it.
struct EventAnchor {
    void* event;
    uint64_t ticks;
};

struct ContextRow {
    std::atomic<void*> context;      // null: free for another one
    std::atomic<void*> registering;  // the context that a thread is making this row for, null none
    std::atomic<uint32_t> tenancy;   // another one with each context, 0 while free
    int device;                      // -1 unknown
    char* marks;                     // the launch marks as mapped for this row, permanently; null: not yet
    uint64_t marks_address;          // their address on the device, 0 none
    BoundedQueue<void*, 2 * kQueuedLaunches> events;
    EventAnchor anchor;
};

class GpuContexts {
  public:
    void start(const DriverApi& driver) { driver_ = &driver; }

    // Memory of a shared mapping that each context gets registered, beginning with the current one. False: the driver
    // refuses it.
    bool register_marks(void* marks, size_t bytes);

    // The row of a context, made at its first use while the context is current; null when there are too many, and while
    // another thread makes it: nobody waits for the driver. Rows stay where they are, so a reader needs no lock. hot
    // after a context's first use, any-thread.
    ContextRow* row_of(void* context);

    // The row that a launch began with; null once its context has ended.
    ContextRow* row_of(const Launch& launch);

    // These contexts have ended. `quiet`: the observing thread uses no row now. cold.
    void forget(const EndingContexts& ending, bool quiet);

  private:
    ContextRow* find(const void* context);
    ContextRow* add(void* context);
    ContextRow* reserve_row(void* context);
    ContextRow* new_row();
    char* marks_of(ContextRow& row);
    uint64_t register_in_current(ContextRow& row);
    bool has_ended(const EndingContexts& ending, const void* context, int device) const;

    ContextRow* rows_[kMaxContexts];
    std::atomic<uint32_t> count_;
    std::atomic<uint32_t> tenancies_;
    const DriverApi* driver_;
    char* marks_;
    size_t marks_bytes_;
};

// A thread's calls made for our own purposes must spoil no capture, its own or another thread's.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const DriverApi& driver)
        : driver_(driver), exchanged_(driver.exchange_capture_mode(&mode_) == kCudaSuccess) {}
    ~RelaxedCapture() {
        if (exchanged_) {
            driver_.exchange_capture_mode(&mode_);
        }
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const DriverApi& driver_;
    int mode_ = kCaptureModeRelaxed;
    bool exchanged_;
};

// One process may drive several devices: marks on a stream must belong to the stream's context.
void* context_of(const DriverApi& driver, const void* stream);

// The context is current while this lives.
class ContextScope {
  public:
    ContextScope(const DriverApi& driver, void* context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

  private:
    const DriverApi& driver_;
    bool pushed_;
};

// Fills in recording.driver, libcuda's functions; false before libcuda is loaded.
bool learn_driver(Recording& recording);

}  // namespace titan::tracer

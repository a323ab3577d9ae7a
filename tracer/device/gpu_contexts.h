// What the observation of the device keeps per CUDA context: pooled events, the launch marks' address there, and the
// anchor that turns event times into ticks.
#pragma once

#include <atomic>
#include <cstdint>

#include "hot/bounded_queue.h"
#include "tracer/driver_api.h"

namespace titan::tracer {

inline constexpr uint32_t kMaxContexts = 32;
inline constexpr uint32_t kQueuedLaunches = 4096;

// Event times count from an event of the same context. When that one happened on the host's clock is bounded from above by
// each completion that was seen, and the smallest bound is the best. Only the observing thread touches it.
struct EventAnchor {
    void* event;
    uint64_t ticks;
};

struct ContextRow {
    std::atomic<void*> context;
    uint64_t marks_address;  // of the launch marks on the device, 0 none
    BoundedQueue<void*, 2 * kQueuedLaunches> events;
    EventAnchor anchor;
};

class GpuContexts {
  public:
    // The row of a context, made at its first use; null when there are too many. Rows are only ever added, so a reader
    // needs no lock. hot after a context's first use, any-thread.
    ContextRow* row_of(void* context);

    // Registered memory whose address each new row learns; null for none.
    void set_marks(const DriverApi* driver, void* marks) {
        driver_ = driver;
        marks_ = marks;
    }

  private:
    ContextRow* add(void* context);

    ContextRow* rows_[kMaxContexts];
    std::atomic<uint32_t> count_;
    const DriverApi* driver_;
    void* marks_;
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

// One process may drive several devices: what is put on a stream must belong to the stream's context.
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

}  // namespace titan::tracer

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
    ContextRow* row_of(void* context) {
        if (context == nullptr) {
            return nullptr;
        }
        ContextRow* const row = find(context);
        return row != nullptr ? row : add(context);
    }

    // These contexts have ended. `quiet`: the observing thread uses no row now. cold.
    void forget(const EndingContexts& ending, bool quiet);

  private:
    ContextRow* find(const void* context) {
        const uint32_t count = count_.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < count; ++i) {
            if (rows_[i]->context.load(std::memory_order_acquire) == context) {
                return rows_[i];
            }
        }
        return nullptr;
    }
    [[gnu::cold]] ContextRow* add(void* context);
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

// The row that a launch began with; null once its context has ended. hot, any-thread.
inline ContextRow* row_of(const Launch& launch) {
    ContextRow* const row = launch.row;
    return row != nullptr && row->tenancy.load(std::memory_order_acquire) == launch.tenancy ? row : nullptr;
}

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

// A context is current while this lives; null: whatever is current stays so. hot but for the driver's own work.
class ContextScope {
  public:
    ContextScope(const DriverApi& driver, void* context)
        : driver_(driver), pushed_(context != nullptr && driver.ctx_push_current(context) == kCudaSuccess) {}
    ~ContextScope() {
        if (pushed_) [[unlikely]] {
            void* popped = nullptr;
            driver_.ctx_pop_current(&popped);
        }
    }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

  private:
    const DriverApi& driver_;
    bool pushed_;
};

// One process may drive several devices: marks on a stream must belong to the stream's context. `current` is the
// thread's own.
inline void* context_of(const DriverApi& driver, const void* stream, void* current) {
    // CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are small numbers, and like null mean a stream of the current context.
    constexpr uintptr_t kLastSpecialStream = 2;
    if (reinterpret_cast<uintptr_t>(stream) > kLastSpecialStream) {
        void* context = nullptr;
        driver.stream_get_ctx(const_cast<void*>(stream), &context);
        return context;
    }
    return current;
}

// Fills in recording.driver, libcuda's functions; false before libcuda is loaded.
bool learn_driver(Recording& recording);

}  // namespace titan::tracer

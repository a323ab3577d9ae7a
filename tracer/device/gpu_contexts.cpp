#include "gpu_contexts.h"

#include <sys/mman.h>
#include <unistd.h>

#include "bindings.h"
#include "cold_lock.h"

namespace titan::tracer {
namespace {

// A row of which the observing thread may still use an event: never used again.
void* const kAbandoned = reinterpret_cast<void*>(~uintptr_t{0});

int current_device(const DriverApi& driver) {
    int device = -1;
    return driver.ctx_get_device != nullptr && driver.ctx_get_device(&device) == kCudaSuccess ? device : -1;
}

void clear(ContextRow& row, bool quiet) {
    row.tenancy.store(0, std::memory_order_release);
    for (void* event = nullptr; row.events.pop(event);) {
        // It ended with its context.
    }
    row.anchor = {};
    row.context.store(quiet ? nullptr : kAbandoned, std::memory_order_release);
}

}  // namespace

bool GpuContexts::register_marks(void* marks, size_t bytes) {
    marks_ = static_cast<char*>(marks);
    marks_bytes_ = bytes;
    void* context = nullptr;
    driver_->ctx_get_current(&context);
    const ContextRow* const row = row_of(context);
    if (row == nullptr || row->marks_address == 0) {
        marks_ = nullptr;
    }
    return marks_ != nullptr;
}

// Each row has a mapping of its own: a registration ends with its context, and what another context has queued still
// needs its own.
char* GpuContexts::marks_of(ContextRow& row) {
    if (row.marks == nullptr && &row == rows_[0]) {
        row.marks = marks_;
    } else if (row.marks == nullptr) {
        const size_t before = reinterpret_cast<uintptr_t>(marks_) % static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        // An old size of zero: the pages of a shared mapping once more (mremap(2)).
        void* const again = mremap(marks_ - before, 0, before + marks_bytes_, MREMAP_MAYMOVE);
        row.marks = again == MAP_FAILED ? nullptr : static_cast<char*>(again) + before;
    }
    return row.marks;
}

uint64_t GpuContexts::register_in_current(ContextRow& row) {
    char* const marks = marks_ == nullptr ? nullptr : marks_of(row);
    if (marks == nullptr) {
        return 0;
    }
    const RelaxedCapture relaxed(*driver_);
    // A context that was forgotten and lives has them registered already, which is an error: the address alone tells.
    driver_->mem_host_register(marks, marks_bytes_, kHostRegisterDeviceMap);
    uint64_t address = 0;
    return driver_->mem_host_get_device_pointer(&address, marks, 0) == kCudaSuccess ? address : 0;
}

ContextRow* GpuContexts::new_row() {
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == kMaxContexts) {
        return nullptr;
    }
    void* const memory = mmap(nullptr, sizeof(ContextRow), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    rows_[count] = static_cast<ContextRow*>(memory);
    rows_[count]->events.start();
    count_.store(count + 1, std::memory_order_release);
    return rows_[count];
}

// Null where the context has a row, or is about to.
ContextRow* GpuContexts::reserve_row(void* context) {
    const ColdLock lock;
    if (!lock) {
        return nullptr;
    }
    ContextRow* free = nullptr;
    const uint32_t count = count_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < count; ++i) {
        const void* const registering = rows_[i]->registering;  // read before the context, because add() stores them in
                                                                // this order
        const void* const owner = rows_[i]->context;
        if (registering == context || owner == context) {
            return nullptr;
        }
        if (free == nullptr && registering == nullptr && owner == nullptr) {
            free = rows_[i];
        }
    }
    free = free != nullptr ? free : new_row();
    if (free != nullptr) {
        free->registering = context;
    }
    return free;
}

// The driver is called without a lock: it may block, for as long as it likes.
ContextRow* GpuContexts::add(void* context) {
    ContextRow* const row = reserve_row(context);
    if (row == nullptr) {
        return find(context);
    }
    row->device = current_device(*driver_);
    row->marks_address = register_in_current(*row);
    row->tenancy.store(tenancies_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    row->context.store(context, std::memory_order_release);
    row->registering.store(nullptr, std::memory_order_release);
    return row;
}

bool GpuContexts::has_ended(const EndingContexts& ending, const void* context, int device) const {
    if (ending.how == EndingContexts::How::kDestroyed) {
        return context == ending.context;
    }
    if (device >= 0 && ending.device >= 0 && device != ending.device) {
        return false;
    }
    unsigned flags = 0;
    int active = 0;
    return ending.how == EndingContexts::How::kReset || device < 0 || driver_->primary_ctx_get_state == nullptr ||
           driver_->primary_ctx_get_state(device, &flags, &active) != kCudaSuccess || active == 0;
}

// Takes no lock, because it asks the driver. A context that one thread ends is not used by another.
//
// The device's other contexts are forgotten with its primary one: which is which is not known, and forgetting one costs
// only its pooled events.
void GpuContexts::forget(const EndingContexts& ending, bool quiet) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
        void* const context = rows_[i]->context.load(std::memory_order_relaxed);
        if (context != nullptr && context != kAbandoned && has_ended(ending, context, rows_[i]->device)) {
            clear(*rows_[i], quiet);
        }
    }
}

bool learn_driver(Recording& recording) {
    // One thread asks, and nobody waits for it: the functions that it calls may block.
    if (recording.driver_known.load(std::memory_order_acquire) ||
        recording.driver_asked.exchange(true, std::memory_order_acquire)) {
        return recording.driver_known.load(std::memory_order_acquire);
    }
    if (bindings().find_driver == nullptr || !bindings().find_driver(recording.driver)) {
        recording.driver_asked.store(false, std::memory_order_release);  // libcuda may be loaded later
        return false;
    }
    int version = 0;
    if (recording.driver.driver_version(&version) == kCudaSuccess) {
        store_field(recording.header->driver_version, version);
    }
    recording.driver_known.store(true, std::memory_order_release);
    return true;
}

}  // namespace titan::tracer

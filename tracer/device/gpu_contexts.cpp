#include "gpu_contexts.h"

#include <sys/mman.h>

#include "session/cold_lock.h"
#include "session/session.h"

namespace titan::tracer {

namespace {

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are small numbers, and like null mean a stream of the current context.
constexpr uintptr_t kLastSpecialStream = 2;

}  // namespace

ContextRow* GpuContexts::row_of(void* context) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
        if (rows_[i]->context.load(std::memory_order_relaxed) == context) {
            return rows_[i];
        }
    }
    return add(context);
}

ContextRow* GpuContexts::add(void* context) {
    const ColdLock lock;
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
        if (rows_[i]->context.load(std::memory_order_relaxed) == context) {
            return rows_[i];
        }
    }
    if (count == kMaxContexts) {
        return nullptr;
    }
    void* const memory = mmap(nullptr, sizeof(ContextRow), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    auto* const row = static_cast<ContextRow*>(memory);
    row->events.start();
    if (marks_ != nullptr && driver_->mem_host_get_device_pointer(&row->marks_address, marks_, 0) != kCudaSuccess) {
        row->marks_address = 0;
    }
    row->context.store(context, std::memory_order_relaxed);
    rows_[count] = row;
    count_.store(count + 1, std::memory_order_release);
    return row;
}

void* context_of(const DriverApi& driver, const void* stream) {
    void* context = nullptr;
    if (reinterpret_cast<uintptr_t>(stream) > kLastSpecialStream) {
        driver.stream_get_ctx(const_cast<void*>(stream), &context);
    } else {
        driver.ctx_get_current(&context);
    }
    return context;
}

ContextScope::ContextScope(const DriverApi& driver, void* context) : driver_(driver) {
    void* current = nullptr;
    driver_.ctx_get_current(&current);
    pushed_ = context != current && driver_.ctx_push_current(context) == kCudaSuccess;
}

ContextScope::~ContextScope() {
    if (pushed_) {
        void* popped = nullptr;
        driver_.ctx_pop_current(&popped);
    }
}

}  // namespace titan::tracer

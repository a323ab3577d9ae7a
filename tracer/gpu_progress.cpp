#include "gpu_progress.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "own_thread.h"
#include "session.h"

namespace titan::tracer {

namespace {

using format::CallState;

constexpr long kBusyPause_ns = 2'000'000;
constexpr long kIdlePause_ns = 20'000'000;

template <typename T>
T* map_zeroed(size_t count) {
    void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

void note_finished(Session& session, const LaunchedCalls& calls, uint64_t now) {
    for (uint64_t ticket = calls.first_ticket; ticket <= calls.last_ticket; ++ticket) {
        format::CollectiveEntry* const entry = session.collectives.find(ticket);
        if (entry == nullptr) {
            count_loss(session, format::Loss::kLateUpdates);
            continue;
        }
        if (entry->group != calls.group || entry->stream != reinterpret_cast<uint64_t>(calls.stream) ||
            load_field(entry->state) != CallState::kPending) {
            continue;
        }
        store_field(entry->gpu_finished_ticks, now);
        store_field(entry->state, CallState::kFinished);
        if (entry->communicator == format::kNoIndex) {
            continue;
        }
        Communicator& communicator = session.communicators.at(entry->communicator);
        communicator.in_flight.fetch_sub(1, std::memory_order_relaxed);
        if (format::is_collective(entry->kind) && entry->sequence >= communicator.record->finished) {
            store_field(communicator.record->finished, entry->sequence + 1);
        }
    }
}

}  // namespace

template <typename T>
void GpuProgress::Queue<T>::start() {
    for (uint64_t i = 0; i < kQueueSlots; ++i) {
        slots[i].sequence.store(i, std::memory_order_relaxed);
    }
}

template <typename T>
bool GpuProgress::Queue<T>::push(const T& value) {
    for (uint64_t position = head.load(std::memory_order_relaxed);;) {
        Slot& slot = slots[position % kQueueSlots];
        const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
        if (sequence == position) {
            if (head.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
                slot.value = value;
                slot.sequence.store(position + 1, std::memory_order_release);
                return true;
            }
        } else if (sequence < position) {
            return false;  // full
        } else {
            position = head.load(std::memory_order_relaxed);
        }
    }
}

template <typename T>
bool GpuProgress::Queue<T>::pop(T& value) {
    for (uint64_t position = tail.load(std::memory_order_relaxed);;) {
        Slot& slot = slots[position % kQueueSlots];
        const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
        if (sequence == position + 1) {
            if (tail.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
                value = slot.value;
                slot.sequence.store(position + kQueueSlots, std::memory_order_release);
                return true;
            }
        } else if (sequence <= position) {
            return false;  // empty
        } else {
            position = tail.load(std::memory_order_relaxed);
        }
    }
}

void GpuProgress::start(Session& session) {
    if (active() || session.config.gpu_progress.method == format::GpuProgressMethod::kOff) {
        return;
    }
    const ColdLock lock;
    if (active() || session_ != nullptr || !find_driver(driver_)) {
        return;
    }
    outstanding_ = map_zeroed<Watched>(kQueueSlots);
    if (outstanding_ == nullptr) {
        return;
    }
    session_ = &session;
    submitted_.start();
    int version = 0;
    if (driver_.driver_version != nullptr && driver_.driver_version(&version) == kCudaSuccess) {
        session.header->driver_version = version;
    }
    if (!start_own_thread(
            "titan-gpu", [](void* self) { static_cast<GpuProgress*>(self)->run(); }, this)) {
        warn_once("no thread for observing the GPU; when collectives finish is not recorded");
        return;
    }
    session.header->gpu_progress = format::GpuProgressMethod::kEvents;
    active_.store(true, std::memory_order_release);
    // Handlers run last in, first out: ours comes before that of the CUDA that is already loaded.
    atexit([] {
        if (Session* const current = tracer::session(); current != nullptr) {
            current->gpu_progress.stop();
        }
    });
}

GpuProgress::ContextPool* GpuProgress::pool_of(void* context) {
    const uint32_t count = pool_count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
        if (pools_[i]->context.load(std::memory_order_relaxed) == context) {
            return pools_[i];
        }
    }
    const ColdLock lock;  // once per context and process
    const uint32_t now = pool_count_.load(std::memory_order_acquire);
    for (uint32_t i = count; i < now; ++i) {
        if (pools_[i]->context.load(std::memory_order_relaxed) == context) {
            return pools_[i];
        }
    }
    auto* const pool = now < kMaxContexts ? map_zeroed<ContextPool>(1) : nullptr;
    if (pool == nullptr) {
        return nullptr;
    }
    pool->events.start();
    pool->context.store(context, std::memory_order_relaxed);
    pools_[now] = pool;
    pool_count_.store(now + 1, std::memory_order_release);
    return pool;
}

void* GpuProgress::take_event(void* context) {
    ContextPool* const pool = pool_of(context);
    void* event = nullptr;
    if (pool == nullptr || pool->events.pop(event)) {
        return event;
    }
    return driver_.event_create(&event, kEventDisableTiming) == kCudaSuccess ? event : nullptr;
}

void GpuProgress::give_event(void* context, void* event) {
    if (ContextPool* const pool = pool_of(context); pool != nullptr) {
        pool->events.push(event);
    }
}

Observation GpuProgress::observe(const LaunchedCalls& calls) {
    if (!active()) {
        return Observation::kUnknown;
    }
    void* const stream = const_cast<void*>(calls.stream);
    int capturing = kCaptureStatusNone;
    if (driver_.stream_is_capturing(stream, &capturing) != kCudaSuccess) {
        count_loss(*session_, format::Loss::kProgressSkipped);
        return Observation::kUnknown;
    }
    if (capturing != kCaptureStatusNone) {
        return Observation::kCaptured;
    }
    void* current = nullptr;
    driver_.ctx_get_current(&current);
    void* context = current;
    if (stream != nullptr) {
        driver_.stream_get_ctx(stream, &context);
    }
    // One process may drive several devices: the event must belong to the stream's.
    const bool foreign = context != current && driver_.ctx_push_current(context) == kCudaSuccess;
    void* const event = take_event(context);
    const bool recorded = event != nullptr && driver_.event_record(event, stream) == kCudaSuccess;
    if (foreign) {
        void* popped = nullptr;
        driver_.ctx_pop_current(&popped);
    }
    if (recorded && submitted_.push({calls, event, context})) {
        return Observation::kWatched;
    }
    if (event != nullptr) {
        give_event(context, event);
    }
    count_loss(*session_, format::Loss::kProgressSkipped);
    return Observation::kUnknown;
}

void GpuProgress::run() {
    // Queries on this thread must not invalidate a capture that another thread has under way.
    int mode = kCaptureModeRelaxed;
    driver_.exchange_capture_mode(&mode);
    while (!stopping_.load(std::memory_order_acquire)) {
        poll_once();
        publish_oldest();
        const timespec pause{.tv_sec = 0, .tv_nsec = outstanding_count_ > 0 ? kBusyPause_ns : kIdlePause_ns};
        nanosleep(&pause, nullptr);
    }
    stopped_.store(true, std::memory_order_release);
}

void GpuProgress::stop() {
    constexpr int kMaxRounds = 50;  // of 2 ms: a thread that hangs in the driver must not keep the process
    active_.store(false, std::memory_order_release);
    stopping_.store(true, std::memory_order_release);
    for (int round = 0; round < kMaxRounds && !stopped_.load(std::memory_order_acquire); ++round) {
        const timespec pause{.tv_sec = 0, .tv_nsec = kBusyPause_ns};
        nanosleep(&pause, nullptr);
    }
}

void GpuProgress::poll_once() {
    while (outstanding_count_ < kQueueSlots && submitted_.pop(outstanding_[outstanding_count_])) {
        ++outstanding_count_;
    }
    // A stream runs in order: behind an unfinished call of a stream nothing else of it is asked for.
    constexpr uint32_t kMaxWaiting = 16;
    const void* waiting[kMaxWaiting];
    uint32_t waiting_count = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < outstanding_count_ && !stopping_.load(std::memory_order_relaxed); ++i) {
        const Watched watched = outstanding_[i];
        bool behind = false;
        for (uint32_t w = 0; w < waiting_count; ++w) {
            behind = behind || waiting[w] == watched.calls.stream;
        }
        if (!behind && is_finished(watched)) {
            give_event(watched.context, watched.event);
            continue;
        }
        if (!behind && waiting_count < kMaxWaiting) {
            waiting[waiting_count++] = watched.calls.stream;
        }
        outstanding_[kept++] = watched;
    }
    outstanding_count_ = kept;
}

// Also true for an event that will never tell: its context is gone.
bool GpuProgress::is_finished(const Watched& watched) {
    if (watched.context != current_context_ && driver_.ctx_set_current(watched.context) == kCudaSuccess) {
        current_context_ = watched.context;
    }
    const int status = driver_.event_query(watched.event);
    if (status == kCudaErrorNotReady) {
        return false;
    }
    if (status == kCudaSuccess) {
        note_finished(*session_, watched.calls, now_ticks());
    } else {
        count_loss(*session_, format::Loss::kProgressSkipped);
    }
    return true;
}

void GpuProgress::publish_oldest() {
    const bool any = outstanding_count_ > 0;
    oldest_entered_ticks_.store(any ? outstanding_[0].calls.entered_ticks : 0, std::memory_order_relaxed);
    oldest_ticket_plus_one_.store(any ? outstanding_[0].calls.first_ticket + 1 : 0, std::memory_order_release);
}

bool GpuProgress::oldest_pending(PendingCollective& pending) const {
    const uint64_t ticket_plus_one = oldest_ticket_plus_one_.load(std::memory_order_acquire);
    if (ticket_plus_one == 0) {
        return false;
    }
    pending = {oldest_entered_ticks_.load(std::memory_order_relaxed), ticket_plus_one - 1};
    return true;
}

bool oldest_pending(PendingCollective& pending) {
    Session* const current = session();
    return current != nullptr && current->gpu_progress.oldest_pending(pending);
}

}  // namespace titan::tracer

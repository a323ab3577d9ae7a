#include "gpu_progress.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "session/bindings.h"
#include "session/log.h"
#include "session/own_thread.h"
#include "session/ring_file.h"
#include "session/session.h"

namespace titan::tracer {

namespace {

using format::GpuProgressMethod;

bool can_write(const DriverApi& driver) {
    return driver.stream_write_value64 != nullptr && driver.mem_host_register != nullptr &&
           driver.mem_host_get_device_pointer != nullptr;
}

}  // namespace

// The device writes into the ring file itself, so the marks outlive the process. Private memory (no room for a file)
// will not do: after a fork the process' own copy would be another page than the one that the device knows.
bool GpuProgress::register_marks() {
    const format::RegionDescriptor* region = nullptr;
    char* const bytes = region_bytes(*session_->header, format::RegionKind::kLaunchMarks, &region);
    if (bytes == nullptr || !session_->ring_file.persistent || !can_write(session_->driver)) {
        return false;
    }
    if (!session_->ring_file.for_devices) {
        warn_once("the GPU's progress is observed by events: %s lies on a disk, where no device may write",
                  session_->ring_file.path);
        return false;
    }
    marks_ = reinterpret_cast<format::LaunchMarks*>(bytes);
    mark_rows_ = region->count;
    return contexts_.register_marks(bytes, region->count * region->stride_bytes);
}

void GpuProgress::start(Session& session) {
    GpuProgressMethod method = session.config.gpu_progress.method;
    void* context = nullptr;
    if (active() || method == GpuProgressMethod::kOff || !learn_driver(session) ||
        session.driver.ctx_get_current(&context) != kCudaSuccess || context == nullptr ||
        started_.exchange(true, std::memory_order_acquire)) {
        return;
    }
    session_ = &session;
    void* const memory =
        mmap(nullptr, kQueuedLaunches * sizeof(Watched), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    outstanding_ = static_cast<Watched*>(memory);
    submitted_.start();
    contexts_.start(session.driver);
    if ((method == GpuProgressMethod::kWrites && !register_marks()) ||
        (method == GpuProgressMethod::kTiming && session.driver.event_elapsed_time == nullptr)) {
        method = GpuProgressMethod::kEvents;
    }
    method_.store(method, std::memory_order_relaxed);
    if (!start_own_thread(
            "titan-gpu", [](void* self) { static_cast<GpuProgress*>(self)->run(); }, this)) {
        warn_once("no thread for observing the GPU; when collectives finish is not recorded");
        return;
    }
    session.header->gpu_progress_sample = session.config.gpu_progress.sample;
    store_field(session.header->gpu_progress, method);
    active_.store(true, std::memory_order_release);
    // Handlers run last in, first out: ours comes before that of the CUDA that is already loaded.
    atexit([] {
        if (Session* const current = tracer::session(); current != nullptr) {
            current->gpu_progress.stop();
        }
    });
}

bool GpuProgress::record_event(ContextRow& row, void*& event, void* stream) const {
    const DriverApi& driver = session_->driver;
    const bool timed = method_.load(std::memory_order_relaxed) == GpuProgressMethod::kTiming;
    if (!row.events.pop(event) && driver.event_create(&event, timed ? 0 : kEventDisableTiming) != kCudaSuccess) {
        event = nullptr;
        return false;
    }
    return driver.event_record(event, stream) == kCudaSuccess;
}

bool GpuProgress::mark(Launch& launch, ContextRow& row, bool finish) {
    void* const stream = const_cast<void*>(launch.stream);
    // Both marks of a launch are of one method, also where the method changes in between.
    if (method_.load(std::memory_order_relaxed) == GpuProgressMethod::kWrites ||
        (finish && launch.start_event == nullptr)) {
        if (row.marks_address == 0) {
            return false;  // the driver gave this context no address for them
        }
        const uint64_t number = launch.number_plus_one;
        const uint64_t address = row.marks_address + (number - 1) % mark_rows_ * sizeof(format::LaunchMarks) +
                                 (finish ? offsetof(format::LaunchMarks, finished) : 0);
        const int status = session_->driver.stream_write_value64(stream, address, number, 0);
        if (status == kCudaErrorNotSupported && !finish) {
            method_.store(GpuProgressMethod::kEvents, std::memory_order_relaxed);
            store_field(session_->header->gpu_progress, GpuProgressMethod::kEvents);
            return record_event(row, launch.start_event, stream);
        }
        return status == kCudaSuccess;
    }
    return record_event(row, finish ? launch.finish_event : launch.start_event, stream);
}

void GpuProgress::begin(Launch& launch, const void* stream) {
    launch = Launch{};
    launch.stream = stream;
    const uint64_t number = launches_.fetch_add(1, std::memory_order_relaxed);
    const uint32_t sample = session_->config.gpu_progress.sample;
    if (sample > 1 && number % sample != 0) {
        return;
    }
    void* const context = context_of(session_->driver, stream);
    const ContextScope scope(session_->driver, context);
    ContextRow* const row = contexts_.row_of(context);
    launch.number_plus_one = number + 1;
    launch.context = context;
    launch.tenancy = row != nullptr ? row->tenancy.load(std::memory_order_relaxed) : 0;
    if (row == nullptr || !mark(launch, *row, false)) {
        cancel(launch);
        launch.number_plus_one = 0;
        count_loss(*session_, format::Loss::kProgressSkipped);
    }
}

bool GpuProgress::end(const Launch& launch, const LaunchedCalls& calls) {
    if (launch.number_plus_one == 0) {
        return false;
    }
    const ContextScope scope(session_->driver, launch.context);
    ContextRow* const row = contexts_.row_of(launch);
    Watched watched{launch, calls, false};
    if (row != nullptr && mark(watched.launch, *row, true) && submitted_.push(watched)) {
        return true;
    }
    give_events(watched.launch);
    count_loss(*session_, format::Loss::kProgressSkipped);
    return false;
}

void GpuProgress::cancel(const Launch& launch) {
    if (launch.number_plus_one != 0) {
        give_events(launch);
    }
}

void GpuProgress::give_events(const Launch& launch) {
    ContextRow* const row = contexts_.row_of(launch);
    for (void* const event : {launch.start_event, launch.finish_event}) {
        if (row != nullptr && event != nullptr) {
            row->events.push(event);
        }
    }
}

bool GpuProgress::oldest_pending(PendingCollective& pending) const {
    const uint64_t ticket_plus_one = oldest_ticket_plus_one_.load(std::memory_order_acquire);
    if (ticket_plus_one == 0) {
        return false;
    }
    pending = {oldest_entered_ticks_.load(std::memory_order_relaxed), ticket_plus_one - 1};
    return true;
}

}  // namespace titan::tracer

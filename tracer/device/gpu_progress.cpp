#include "gpu_progress.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "gpu_contexts.h"
#include "log.h"
#include "own_thread.h"
#include "ring_file.h"

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
    char* const bytes = region_bytes(*recording_->header, format::RegionKind::kLaunchMarks, &region);
    if (bytes == nullptr || !recording_->ring_file.persistent || !can_write(recording_->driver)) {
        return false;
    }
    if (!recording_->ring_file.for_devices) {
        warn_once("the GPU's progress is observed by events: %s is on a disk, where no device may write",
                  recording_->ring_file.path);
        return false;
    }
    marks_ = reinterpret_cast<format::LaunchMarks*>(bytes);
    mark_mask_ = region->count - 1;
    return contexts_.register_marks(bytes, region->count * region->stride_bytes);
}

bool GpuProgress::start(Recording& recording, Communicators& communicators) {
    const GpuProgressSetting& setting = recording.config.gpu_progress;
    GpuProgressMethod method = setting.method;
    void* context = nullptr;
    if (active() || method == GpuProgressMethod::kOff || (setting.by_budget && recording.config.budget == 0) ||
        !learn_driver(recording) || recording.driver.ctx_get_current(&context) != kCudaSuccess || context == nullptr ||
        started_.exchange(true, std::memory_order_acquire)) {
        return false;
    }
    recording_ = &recording;
    communicators_ = &communicators;
    void* const memory =
        mmap(nullptr, kQueuedLaunches * sizeof(Watched), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    outstanding_ = static_cast<Watched*>(memory);
    submitted_.start();
    contexts_.start(recording.driver);
    if ((method == GpuProgressMethod::kWrites && !register_marks()) ||
        (method == GpuProgressMethod::kTiming && recording.driver.event_elapsed_time == nullptr)) {
        method = GpuProgressMethod::kEvents;
    }
    method_.store(method, std::memory_order_relaxed);
    if (!start_own_thread(
            "titan-gpu", [](void* self) { static_cast<GpuProgress*>(self)->run(); }, this)) {
        warn_once("no thread for observing the GPU; when collectives finish is not recorded");
        return false;
    }
    observing_.start(recording, method);
    active_.store(true, std::memory_order_release);
    return true;
}

bool GpuProgress::record_event(ContextRow& row, void*& event, const void* stream) const {
    const DriverApi& driver = recording_->driver;
    const bool timed = method_.load(std::memory_order_relaxed) == GpuProgressMethod::kTiming;
    if (!row.events.pop(event) && driver.event_create(&event, timed ? 0 : kEventDisableTiming) != kCudaSuccess) {
        event = nullptr;
        return false;
    }
    return driver.event_record(event, const_cast<void*>(stream)) == kCudaSuccess;
}

void GpuProgress::cancel(const Launch& launch) {
    if (launch.number_plus_one != 0) {
        give_events(launch);
    }
}

void GpuProgress::give_events(const Launch& launch) {
    ContextRow* const row = row_of(launch);
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

#include "health.h"

#include <algorithm>

#include "base/clock.h"
#include "base/futex.h"
#include "host_health.h"
#include "own_thread.h"

namespace titan::tracer {

namespace {

constexpr uint64_t kExitWaitNs = 200'000'000;
// A program does not live long after most Xids: they are looked for more often than the rest is read.
constexpr uint64_t kXidLookNs = 1'000'000'000;

}  // namespace

void Health::publish(const Recording& recording, int ordinal) {
    for (Device& device : devices_) {
        int expected = 0;
        if (device.ordinal_plus_one.compare_exchange_strong(expected, ordinal + 1)) {
            const auto bus_id_of = recording.driver.device_get_pci_bus_id;
            if (bus_id_of != nullptr &&
                bus_id_of(device.pci_bus_id, sizeof(device.pci_bus_id), ordinal) == kCudaSuccess) {
                device.published.store(true, std::memory_order_release);
            }
            return;
        }
        if (expected == ordinal + 1) {
            return;
        }
    }
}

bool Health::note_device(Recording& recording, int ordinal) {
    if (recording.config.health_ns == 0) {
        return false;
    }
    if (ordinal >= 0 && recording.driver_known.load(std::memory_order_acquire)) {
        publish(recording, ordinal);
    }
    if (started_.exchange(true, std::memory_order_acq_rel)) {
        return false;
    }
    recording_ = &recording;
    log_.start(recording);
    return start_own_thread(
        "titan-health", [](void* self) { static_cast<Health*>(self)->run(); }, this);
}

void Health::run() {
    const uint64_t health_ns = recording_->config.health_ns;
    uint64_t due_ns = 0;
    while (stopping_.load(std::memory_order_acquire) == 0) {
        if (const uint64_t now_ns = monotonic_now_ns(); now_ns >= due_ns) {
            due_ns = now_ns + health_ns;
            read();
        }
        gpus_.read_xids(log_);
        log_.keep_events();
        futex_wait(stopping_, 0, gpus_.works() ? std::min(health_ns, kXidLookNs) : health_ns);
    }
    gpus_.read_xids(log_);
    stopped_.store(1, std::memory_order_release);
    futex_wake_all(stopped_);
}

void Health::read() {
    const bool has_gpus = gpus_.works() || gpus_.start();
    for (Device& device : devices_) {
        if (has_gpus && !device.is_added && device.published.load(std::memory_order_acquire)) {
            device.is_added = true;
            gpus_.add(*recording_, device.ordinal_plus_one.load(std::memory_order_relaxed) - 1, device.pci_bus_id);
        }
    }
    gpus_.read(log_);
    read_control_group("", log_);
    cpu_clock_.read("", log_);
    if (recording_->identity.local_rank <= 0) {
        read_ports("", log_);
        read_host("", log_);
    }
}

void Health::stop() {
    stopping_.store(1, std::memory_order_release);
    futex_wake_all(stopping_);
    futex_await(stopped_, monotonic_now_ns() + kExitWaitNs, [](uint32_t stopped) { return stopped != 0; });
}

}  // namespace titan::tracer

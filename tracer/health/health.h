// The health of what the process runs on, read by a thread of ours at a low rate: its GPUs, its control group and its
// CPU, and in one process of a node the network ports and the host. NVML may hang where a GPU has fallen off its bus:
// nobody waits for this thread but an exit, for a moment.
#pragma once

#include <atomic>
#include <cstdint>

#include "gpu_health.h"
#include "health_log.h"
#include "host_health.h"

namespace titan::tracer {

class Health {
  public:
    // The process uses this device; the first call starts the thread. True for that call, where it runs: stop() is to
    // be called before the program's libraries are taken down. cold, any-thread.
    bool note_device(Recording& recording, int ordinal);

    // Waits a moment for a reading that is under way. any-thread.
    void stop();

  private:
    struct Device {
        std::atomic<int> ordinal_plus_one;  // 0: a free place
        std::atomic<bool> published;
        bool is_added;  // the thread's
        char pci_bus_id[24];
    };
    static constexpr uint32_t kMostDevices = 16;

    void publish(const Recording& recording, int ordinal);
    void run();
    void read();

    Recording* recording_;
    std::atomic<bool> started_;
    std::atomic<uint32_t> stopping_;
    std::atomic<uint32_t> stopped_;
    Device devices_[kMostDevices];
    GpuHealth gpus_;
    CpuClock cpu_clock_;
    HealthLog log_;
};

}  // namespace titan::tracer

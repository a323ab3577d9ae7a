// What NVML tells of the GPUs that the process uses. One thread's.
#pragma once

#include <cstdint>

#include "health_log.h"
#include "tracer/nvml_api.h"

namespace titan::tracer {

class GpuHealth {
  public:
    // False where the program has not loaded NVML, or it does not work here.
    bool start();
    bool works() const { return works_; }

    // From now on this one is read. `ordinal`: CUDA's number in this process. Its UUID becomes a label.
    void add(Recording& recording, int ordinal, const char* pci_bus_id);

    void read(HealthLog& log);
    // The Xids that came since the last call.
    void read_xids(HealthLog& log);

  private:
    struct Gpu {
        void* device;
        int ordinal;
    };
    static constexpr uint32_t kMostGpus = 16;

    void read_links(const Gpu& gpu, HealthLog& log) const;

    NvmlApi nvml_;
    bool works_;
    uint32_t count_;
    Gpu gpus_[kMostGpus];
    void* events_;
};

}  // namespace titan::tracer

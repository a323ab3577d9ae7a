// What /sys and /proc tell of the node and of this process. `root` is "" but in tests. cold.
#pragma once

#include <cstdint>

#include "health_log.h"

namespace titan::tracer {

// The node's InfiniBand and RoCE ports, its memory and how long tasks wait: for one process of the node.
void read_ports(const char* root, HealthLog& log);
void read_host(const char* root, HealthLog& log);

// What the limits on memory did to this process's control group.
void read_control_group(const char* root, HealthLog& log);

// The clock of the CPU that the main thread computes on. One thread's.
class CpuClock {
  public:
    // A CPU that idles may have any clock: none is read while the main thread waits.
    void read(const char* root, HealthLog& log);

  private:
    static constexpr uint32_t kSamples = 7;
    double samples_mhz_[kSamples];
    uint32_t count_;
};

}  // namespace titan::tracer

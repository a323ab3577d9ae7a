// What /proc and /sys tell of this process: what the limits on memory did to its control group, and the clock of the
// CPU that its main thread computes on. `root` is "" but in tests. cold.
#pragma once

#include <cstdint>

#include "health_log.h"

namespace titan::tracer {

void read_control_group(const char* root, HealthLog& log);

// One thread's.
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

// What is read of the machine, written into the ring where it changed. One thread's.
#pragma once

#include <cstdint>

#include "recording.h"

namespace titan::tracer {

class HealthLog {
  public:
    void start(Recording& recording) { recording_ = &recording; }

    // One reading. Smaller changes than `noise` are none. The name is copied; it ends with its unit.
    void note(const char* name, double value, double noise);

  private:
    struct Known {
        uint32_t name;  // text id
        bool is_written;
        uint64_t since_ticks;
        int64_t since_step;
        double value;  // as written
        double first_value;
        uint64_t ticket;
    };
    static constexpr uint32_t kMostNames = 384;

    Known* find(uint32_t name);
    void write(Known& known, uint64_t now_ticks);

    Recording* recording_;
    uint32_t count_;
    Known known_[kMostNames];
};

}  // namespace titan::tracer

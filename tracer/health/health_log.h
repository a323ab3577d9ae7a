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
    // Something happened: counts how often. What it has been since is when it happened first.
    void note_event(const char* name);
    // Events are not read again: writes those again whose entries would soon be overwritten.
    void keep_events();

  private:
    struct Known {
        uint32_t name;  // text id
        bool is_written;
        bool is_event;
        uint64_t since_ticks;
        int64_t since_step;
        double value;  // as written
        double first_value;
        uint64_t ticket;
    };
    static constexpr uint32_t kMostNames = 384;

    Known* find(const char* name);
    void set(Known& known, double value, uint64_t now_ticks) const;
    bool is_old(const Known& known) const;
    void write(Known& known, uint64_t now_ticks);

    Recording* recording_;
    uint32_t count_;
    Known known_[kMostNames];
};

}  // namespace titan::tracer

// Writes what is known of a thread into an image: native frames by unwinding, Python frames in words. Watch thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ask_threads.h"
#include "modules.h"
#include "stack_image.h"

namespace titan::tracer {

// Threads of a program are often in the same lines.
struct KnownPlace {
    uint64_t code;
    int32_t offset;
    format::StackPython place;
};
inline constexpr size_t kKnownPlaces = 4096;

class StackWriter {
  public:
    // `places` are zero at first. `crashing`: the thread whose stack begins behind a signal's handler, 0 none.
    StackWriter(StackImage& image, const ModuleList& modules, KnownPlace* places, int32_t crashing)
        : image_(image), modules_(modules), places_(places), crashing_(crashing) {}

    // False: frames are missing, and `whole` was asked for.
    bool write(const Answer& answer, format::StackThread& thread, bool whole);
    void write_python_alone(const PythonWalk& walked, format::StackThread& thread);

  private:
    static constexpr size_t kMaxFramesOfThread = 256;

    bool write_native(const CapturedThread& captured, format::StackThread& thread, bool whole);
    void write_python(const PythonWalk& walked, format::StackThread& thread);
    uint32_t native_frame_of(uint64_t mark) const;
    format::StackPython place_of(const python::Frame& frame);

    StackImage& image_;
    const ModuleList& modules_;
    KnownPlace* places_;
    int32_t crashing_;
    uint64_t tops_[kMaxFramesOfThread] = {};
    size_t frames_seen_ = 0;
};

}  // namespace titan::tracer

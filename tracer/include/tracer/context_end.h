// The program ends CUDA contexts: the tracer's data for them (events, the marks' address) is no longer valid then, and
// a context made later may have the same address.
#pragma once

#include <cstdint>

namespace titan::tracer {

inline constexpr int kCurrentDevice = -1;

// The contexts that a call ends: one, or the primary context of a device. A release ends it only if it is the last one.
struct EndingContexts {
    enum class How : uint8_t { kDestroyed, kReleased, kReset } how;
    const void* context = nullptr;  // kDestroyed
    int device = kCurrentDevice;    // kReleased, kReset
};

inline EndingContexts destroyed(const void* context) {
    return {.how = EndingContexts::How::kDestroyed, .context = context};
}
inline EndingContexts released(int device) { return {.how = EndingContexts::How::kReleased, .device = device}; }
inline EndingContexts reset(int device) { return {.how = EndingContexts::How::kReset, .device = device}; }

// Lives around the real call. cold, any-thread. Begins by keeping the observing thread away from the driver, bounded by
// 100 ms; ends by forgetting the contexts.
class ContextEnd {
  public:
    explicit ContextEnd(const EndingContexts& ending);
    ~ContextEnd();
    ContextEnd(const ContextEnd&) = delete;
    ContextEnd& operator=(const ContextEnd&) = delete;

  private:
    EndingContexts ending_;
    bool held_ = false;   // the observing thread leaves the driver alone until this ends
    bool quiet_ = false;  // and has said so
};

}  // namespace titan::tracer

#pragma once

#include "base/uninterrupted.h"

namespace titan::tracer {

// A lock for the cold side: communicators that come and go, captures, graphs.
//
// The holder calls nothing that may block (the driver, NCCL, the loader, files; tests/guest/test_blocked_driver.py) and
// is not interrupted, so others wait microseconds. If the holder is stopped all the same (by a debugger), or is the
// same thread (in the handler of a fault), waiting threads go on without the lock: `if (!lock)`, and lose what they
// wanted to record. A forked child finds it free.
class [[nodiscard]] ColdLock {
  public:
    enum class Wait { kShort, kNone };
    explicit ColdLock(Wait wait = Wait::kShort);
    ~ColdLock();
    ColdLock(const ColdLock&) = delete;
    ColdLock& operator=(const ColdLock&) = delete;

    explicit operator bool() const { return held_; }

  private:
    Uninterrupted uninterrupted_;
    bool held_;
};

}  // namespace titan::tracer

#pragma once

#include "base/uninterrupted.h"

namespace titan::tracer {

// A lock for the cold side: communicators that come and go, captures, graphs.
//
// Who holds it calls nothing that may block (the driver, NCCL, the loader, files; tests/guest/test_blocked_driver.py)
// and is not interrupted, so others wait microseconds. Should the holder be stopped all the same (by a debugger), or be
// the same thread (in the handler of a fault), then whoever waits goes without: `if (!lock)`, and what it wanted to
// record is lost. A forked child finds it free.
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

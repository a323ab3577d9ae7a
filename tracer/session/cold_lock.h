#pragma once

namespace titan::tracer {

// A lock for the cold side (communicators coming and going). Held for no real call; a forked child finds it free.
class ColdLock {
  public:
    ColdLock();
    ~ColdLock();
    ColdLock(const ColdLock&) = delete;
    ColdLock& operator=(const ColdLock&) = delete;
};

}  // namespace titan::tracer

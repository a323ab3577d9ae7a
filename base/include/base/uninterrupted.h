// A stretch of code that the calling thread does not leave half-way: no signal handler runs on it, nobody cancels it.
#pragma once

#include <cstdint>

namespace titan {

// Faults are not held back, because a blocked fault ends the process: a program that handles them (write barriers,
// system calls that a sandbox emulates) must get them. Nests. signal-safe, two system calls.
class Uninterrupted {
  public:
    Uninterrupted();
    ~Uninterrupted();
    Uninterrupted(const Uninterrupted&) = delete;
    Uninterrupted& operator=(const Uninterrupted&) = delete;

  private:
    uint64_t signals_;  // the kernel's set of those that were blocked before
};

// The same for code that calls functions at which a thread may be cancelled (open, nanosleep). A thread that was
// cancelled meanwhile ends at its next such function.
class NotCancelled {
  public:
    NotCancelled();
    ~NotCancelled();
    NotCancelled(const NotCancelled&) = delete;
    NotCancelled& operator=(const NotCancelled&) = delete;

  private:
    int state_;
};

}  // namespace titan

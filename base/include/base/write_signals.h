// Writes that end no process: the signals that a write may raise in its thread are kept back and taken away.
// signal-safe.
#pragma once

#include <signal.h>

namespace titan {

// Suppresses the signals of a write to a pipe without a reader, to a file at its size limit, or to a terminal that
// stops background jobs.
class WithoutWriteSignals {
  public:
    WithoutWriteSignals();
    ~WithoutWriteSignals();
    WithoutWriteSignals(const WithoutWriteSignals&) = delete;
    WithoutWriteSignals& operator=(const WithoutWriteSignals&) = delete;

  private:
    sigset_t pending_before_;
    sigset_t mask_before_;
};

}  // namespace titan

// Signals: their names, writes that raise none, and libc's own sigaction. signal-safe.
#pragma once

#include <signal.h>

// libc's own sigaction, under the name that nobody interposes: sigaction itself is our wrapper.
extern "C" int __sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept;

namespace titan {

// Names (sigabbrev_np is younger than the C libraries that we run with).
//
// "SIGSEGV"; null for real-time signals and for numbers that are no signal.
const char* signal_name(int number);

// The number of "SIGUSR1", "USR1" or "usr1"; 0 where no signal is called so.
int signal_named(const char* name);

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

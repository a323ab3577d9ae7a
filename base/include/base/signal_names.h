// Names of signals (sigabbrev_np is younger than the C libraries that we run with). signal-safe.
#pragma once

namespace titan {

// "SIGSEGV"; null for real-time signals and for numbers that are no signal.
const char* signal_name(int number);

// The number of "SIGUSR1", "USR1" or "usr1"; 0 where no signal is called so.
int signal_named(const char* name);

}  // namespace titan

// Signals: the one that asks for a dump, and those that end the process.
//
// The handler only leaves a request and wakes the watch thread. A program may install its own handlers before or after
// us; they are chained with the information, context, mask and flags that they would have had.
//   dump signal   dump, then the program's handler. Where the program has none the signal is swallowed: its default
//   action
//                 would end the job. Ignored it asks for nothing: the kernel must see it ignored, too, for
//                 programs that this one executes.
//   fatal         the program's own handler first: runtimes recover from faults (a JVM inside the process raises
//   SIGSEGV
//                 all day), and those that only report put the default action back and raise again, which brings them
//                 here. When the default action is due: dump, a short wait for it, then death by the same signal.
// In a forked child without a session everything is as if we were not there.
#pragma once

#include <cstdint>

#include "config.h"
#include "tracer/signal_actions.h"

namespace titan::tracer {

// Adopts what the program has installed. Once per session, after start_watch().
void install_signals(const Config& config);

// A handler of the program's own comes after a dump that was asked for by signal. any-thread.
bool program_handles_dump_signal();

// The thread that has crashed and waits for its dump, 0 none. any-thread.
int32_t crashing_thread();

// The process calls _exit from inside its own handler of a fatal signal: not an orderly end. Dumps; true if so.
bool exiting_from_crash();

}  // namespace titan::tracer

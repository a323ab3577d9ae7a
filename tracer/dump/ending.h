// Records in the ring's header how the process ends: the signal that asked it to, and its exit status. They tell the
// rank that ended first from those that a launcher ended while cleaning up.
#pragma once

#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// signal-safe. Signals that repeat themselves within a minute are one request.
void note_end_signal(format::RingHeader& header, int number, int32_t sender);

// Such a request came within the last minute: the process ends because of it.
bool is_asked_to_end(const format::RingHeader& header);

// Learns the status of a program that calls exit() or quick_exit(); _exit() passes its status itself. Once per process.
void watch_exit_status();
void note_exit(format::RingHeader& header, int status);
// The program left by itself, with a status other than 0.
bool exited_in_failure(const format::RingHeader& header);

}  // namespace titan::tracer

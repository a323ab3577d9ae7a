// How the process ends, written into the ring's header: the signal that asked it to, and the status that it left with.
// Who ended first, and who was only ended by a launcher that cleans up, is told by this.
#pragma once

#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// signal-safe. Signals that repeat themselves within a minute are one request.
void note_end_signal(format::RingHeader& header, int number, int32_t sender);

// Such a request came within the last minute: the process ends because of it.
bool is_asked_to_end(const format::RingHeader& header);

// Of a program that calls exit() or quick_exit(); _exit() hands its status over itself. Once per process.
void watch_exit_status();
void note_exit(format::RingHeader& header, int status);
// The program left by itself, with a status other than 0.
bool exited_in_failure(const format::RingHeader& header);

}  // namespace titan::tracer

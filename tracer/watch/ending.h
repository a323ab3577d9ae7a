// How the process ends: what asked it to, its exit status, its last dump, and that it leaves the job. The ring's header
// keeps the first two; they tell the rank that ended first from those that a launcher ended while cleaning up.
#pragma once

#include <cstdint>

#include "session.h"

namespace titan::tracer {

// What the rooms above have to save where the process is about to end. `is_last`: no other process of the job is left
// here.
using SaveWork = void (*)(Session& session, bool is_last);

// Once per session. Also learns the status of a program that calls exit() or quick_exit(); _exit() passes its status to
// on_process_exit (tracer/record.h) itself.
void start_ending(SaveWork save);
void save_what_is_left(Session& session, bool is_last);

// signal-safe. Signals that repeat themselves within a minute are one request.
void note_end_signal(format::RingHeader& header, int number, int32_t sender);

// Such a request came within the last minute: the process ends because of it.
bool is_asked_to_end(const format::RingHeader& header);

}  // namespace titan::tracer

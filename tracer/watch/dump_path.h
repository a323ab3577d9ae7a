// The way of a dump, from the requests to the file.
#pragma once

#include <cstdint>

#include "session.h"

namespace titan::tracer {

void start_dump_path();  // once per session

// Answers what was asked for since the last call. Watch thread.
void serve_requests(Session& session);

// When the copy that waits for its turn is due (monotonic); UINT64_MAX: there is none.
uint64_t held_dump_due_ns();

}  // namespace titan::tracer

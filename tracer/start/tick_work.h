// What the watch thread does at each tick beside dumps (start_watch): it names the places that call markers, tells of
// metrics that are no numbers, tends the journal, and frees names. cold.
#pragma once

#include <cstdint>

#include "session.h"

namespace titan::tracer {

void start_tick_work();  // a new session
bool do_tick_work(Session& session, uint64_t now_ns);

}  // namespace titan::tracer

#include "told.h"

#include <time.h>

#include <cstring>

#include "tick_times.h"
#define TITAN_IN_TRACER
#include "titantrace.h"

namespace titan::tracer {

Told told_by(Thread& thread, const titan_mark* mark, const void* caller) {
    if (mark == nullptr) {
        return told_from(thread, caller);
    }
    titan_mark known{};  // a program that was built with another header has another size of its own
    memcpy(&known, mark, mark->bytes < sizeof(known) ? mark->bytes : sizeof(known));
    Told told{.site = known.site, .parent = own_id(*thread.session, known.parent), .ticks = 0, .task = known.task};
    if (told.site == 0) {
        told.site = thread.session->marker_sites.native(caller);
    }
    if (known.time_ns <= 0) {
        told.ticks = now_ticks();
    } else {
        const TickTimes times(*thread.session->header);
        told.ticks = known.clock == CLOCK_MONOTONIC ? times.ticks_at_monotonic(known.time_ns)
                                                    : times.ticks_at_realtime(known.time_ns);
    }
    return told;
}

}  // namespace titan::tracer

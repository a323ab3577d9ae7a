// The tracer's own thread, "titan-watch": heartbeat, clock anchors, the watchdog, and every dump.
//
// Others only leave a request and wake it: a signal handler or a thread about to abort can do no more than that.
#pragma once

#include <cstdint>

#include "ending.h"
#include "formats/layout/enums.h"
#include "job.h"

namespace titan::tracer {

// Work that the rooms above have the thread do at each tick; returns true to be called again in kSoonNs.
using TickWork = bool (*)(Session& session, uint64_t now_ns);
inline constexpr uint64_t kSoonNs = 250'000'000;

// Joins the job of this node and starts the thread. Once per session, after session() answers.
bool start_watch(TickWork work, SaveWork save);

// Asks for a dump, if TITANTRACE_DUMP_ON lists the reason, or it is always heard. One request per reason waits at a
// time, later ones join it; of several reasons the gravest names the dump. any-thread, signal-safe.
void request_dump(format::DumpReason reason, const char* detail);
void request_peer_dump(const JobRequest& request);  // from another rank, for a process without a job segment

// Waits until the requests made before are answered: by a finished dump, or by a copy of the ring in memory. False on
// timeout, at once on the watch thread itself. any-thread, signal-safe.
bool wait_for_dump(uint64_t timeout_ns);
bool wait_for_snapshot(uint64_t timeout_ns);

}  // namespace titan::tracer

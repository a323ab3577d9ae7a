// The requests for a dump that reach this process, whoever makes them.
#pragma once

#include <cstdint>

#include "dump_reasons.h"
#include "formats/layout/ring_layout.h"
#include "job.h"

namespace titan::tracer {

struct PendingDump {
    format::DumpReason reason;  // the gravest of those that wait
    int32_t rank;               // rank that asked, -1 this one
    format::DumpReason cause;   // reason of the peer's dump
    char detail[192];
};

// 1. Of this process: one place per reason, filled from signal handlers.
//
// Each requester takes a number. The watch thread publishes the highest number for which it has copied the ring and
// finished the dump, in words that waiters sleep on. signal-safe, any-thread.
void leave_request(format::DumpReason reason, const char* detail);

// kLate: somebody took a number after the requests had been taken. The dump for those taken last answers it, too.
enum class Requests { kNone, kTaken, kLate };

// Watch thread: takes all waiting requests. `covered` is the number that they are answered under.
Requests take_requests(PendingDump& pending, uint32_t& covered);
void mark_snapshot(uint32_t covered);
void mark_complete(uint32_t covered, bool has_file);
void mark_late(uint32_t covered);  // like mark_complete, with the same result as those taken last

// Returns at once where somebody has waited in vain before and nothing was copied since.
bool await_snapshot(uint64_t timeout_ns);
// False too when the dump was made and could not be written anywhere.
bool await_complete(uint64_t timeout_ns);

// Forgets all requests and answers: for a forked child that starts a session of its own.
void reset_requests();

// 2. Of another rank, which has dumped itself: here through the job segment (next_request), or from another node.
PendingDump pending_of_peer(const JobRequest& request);
void leave_request_of_peer(const JobRequest& request);  // for a process without a job segment

// 3. Of a tool, through a word in the header of the ring file: no signal, no file descriptor, and for this process
// alone. Anyone who may write the ring may ask (titan-dump).
//
// Asking is one store and, for the impatient, a wake-up of the job segment's word; without it the watch thread sees the
// word at its next tick. For the watch thread.

// Starts answering; whatever is in the header already does not count as a request.
void start_answering(format::RingHeader& header);

// The request, once: the word changed. 0 none.
uint64_t take_outside_request(format::RingHeader& header);

// Called around every dump, no matter who asked for it. `path`: null if it could not be written.
void note_dump_begun(format::RingHeader& header);
void note_dump_ended(format::RingHeader& header, const char* path);

}  // namespace titan::tracer

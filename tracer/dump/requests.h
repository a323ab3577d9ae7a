// The requests for a dump that wait inside this process: one place per reason, filled from signal handlers.
//
// Each requester takes a number. The watch thread publishes the highest number for which it has copied the ring and
// finished the dump, in words that waiters sleep on. signal-safe, any-thread.
#pragma once

#include <cstdint>

#include "formats/layout/enums.h"

namespace titan::tracer {

struct PendingDump {
    format::DumpReason reason;  // the gravest of those that wait
    int32_t rank;               // rank that asked, -1 this one
    format::DumpReason cause;   // reason of the peer's dump
    char detail[192];
};

void leave_request(format::DumpReason reason, const char* detail);
void leave_request_of_peer(int32_t rank, format::DumpReason cause, const char* detail);

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

}  // namespace titan::tracer

// Requests for a dump that come from outside, through a word in the header of the ring file: no signal, no file
// descriptor, and for this process alone. Anyone who may write the ring may ask (titan-dump).
//
// Asking is one store and, for the impatient, a wake-up of the job segment's word; without it the watch thread sees the
// word at its next tick. For the watch thread.
#pragma once

#include <cstdint>

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// Starts answering requests; whatever is in the header already does not count as one.
void start_answering(format::RingHeader& header);

// True once per request: the word changed.
bool take_outside_request(format::RingHeader& header, uint64_t& request);

// Called around every dump, no matter who asked for it. `path`: null if it could not be written.
void note_dump_begun(format::RingHeader& header);
void note_dump_ended(format::RingHeader& header, const char* path);

}  // namespace titan::tracer

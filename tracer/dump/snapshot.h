// A copy of the ring while others write to it. signal-safe, no allocation.
#pragma once

#include "formats/layout/ring_layout.h"

namespace titan::tracer {

// Copies header.file_bytes from the live ring to `image`. A slot that changed while it was copied gets an odd
// slot_sequence in the image, as if its writer had been caught in the middle: readers skip it.
void copy_ring(format::RingHeader& ring, uint64_t bytes, char* image);

}  // namespace titan::tracer

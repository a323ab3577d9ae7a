// Ranges and marks of an annotation library (NVTX): spans and events, within a limit on their volume.
//
// Ranges nest per thread and domain; titantrace's spans nest per thread. A range that ends out of order ends its span
// as soon as the spans inside it have ended. Ranges above the limit are counted (Loss::kRangesDropped), and a range
// whose begin was dropped has no end. No function starts a session in a process that is no rank. hot, any-thread.
#pragma once

#include <cstdint>

namespace titan::tracer {

// Returns the number of ranges of this domain that the thread had open before. `domain` is only compared.
int range_push(const void* domain, const char* name);
// Returns the number of ranges that are still open, or -1 if none was.
int range_pop(const void* domain);

// Ranges that may begin and end on different threads, and overlap others: spans that nest in none. 0: dropped.
uint64_t range_start(const char* name);
void range_end(uint64_t id);

void range_mark(const char* name);

}  // namespace titan::tracer

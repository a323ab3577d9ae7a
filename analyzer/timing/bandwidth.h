// Collectives that take longer than their like, or than before.
#pragma once

#include <cstdint>

#include "timing.h"

namespace titan::analyzer {

void find_slow_collectives(const Run& run, Timing& timing);

// Of bytes that cross the bus per byte that nccl-tests count for the operation, and those bytes.
double bus_bytes(OpKind kind, uint64_t bytes, int members);

}  // namespace titan::analyzer

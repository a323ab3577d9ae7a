// Collectives that take longer than their like, or than before.
#pragma once

#include <cstdint>

#include "timing.h"

namespace titan::analyzer {

void find_slow_collectives(const Run& run, Timing& timing);

// Bytes that cross the bus, by the factor that nccl-tests use for the operation.
double bus_bytes(OpKind kind, uint64_t bytes, int members);

}  // namespace titan::analyzer

// Bandwidth of collectives, whatever the operation.
#pragma once

#include <cstdint>

#include "run.h"

namespace titan::analyzer {

// Bytes that cross the bus, by the factor that nccl-tests use for the operation.
double bus_bytes(OpKind kind, uint64_t bytes, int members);

}  // namespace titan::analyzer

// Arithmetic on every datatype and reduction of NCCL.
#pragma once

#include <cstddef>

#include "vendor.h"

namespace simgpu {

size_t element_bytes(ncclDataType_t type);  // 0: no such type

// out[i] = in[0][i] op in[1][i] op ...; Avg divides the sum by the number of inputs. Small floats are accumulated in
// single precision and rounded once.
void reduce(ncclDataType_t type, ncclRedOp_t op, void* out, const void* const* in, int inputs, size_t count);

// out[i] = in[i] * scalar, in the arithmetic of the type.
void scale(ncclDataType_t type, void* out, const void* in, const void* scalar, size_t count);

}  // namespace simgpu

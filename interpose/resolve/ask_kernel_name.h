// The names of kernels, as CUDA knows them.
#pragma once

#include <cstddef>

#include "tracer/record.h"

namespace titan::interpose {

// tracer::Bindings::kernel_name. cold, any-thread. Leaves the program's last CUDA error as it is.
bool kernel_name(tracer::FunctionKind kind, const void* function, const void* real, char* name, size_t bytes);

}  // namespace titan::interpose

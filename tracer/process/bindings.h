// Functions that only interpose/ can provide; the library's constructor sets them. cold.
#pragma once

#include "tracer/record.h"

namespace titan::tracer {

void keep_bindings(const Bindings& given);
const Bindings& bindings();

int find_nccl_version();
bool find_kernel_name(FunctionKind kind, const void* function, const void* real, char* name, size_t bytes);

}  // namespace titan::tracer

// Which PyTorch is loaded.
#pragma once

#include <cstddef>

namespace titan::tracer {

// "2.13.0+cu130, CUDA 13.0", from torch/version.py beside the library that is loaded; empty without PyTorch. cold.
void read_torch_version(char* out, size_t capacity_bytes);

}  // namespace titan::tracer

// cuda.h with every versioned and per-thread-stream form declared under its ELF name, and exported from this library:
// a definition that does not match NVIDIA's declaration does not compile.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

// One row per ELF symbol: without this cuda.h would rename some of them by macro.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define TITAN_RESULT CUresult
#define TITAN_MISSING_RESULT CUDA_ERROR_NOT_FOUND
#include "sync_wrapper.h"

#include "cuda_driver.def"

#include <cuda_runtime_api.h>

#define TITAN_RESULT cudaError_t
#define TITAN_MISSING_RESULT cudaErrorSharedObjectSymbolNotFound
#include "sync_wrapper.h"

#include "cuda_runtime.def"

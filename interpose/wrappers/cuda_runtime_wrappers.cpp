// The runtime's wrappers. In C++ the header's functions have default arguments and overloads; only its C names are
// looked at.
#include <cuda_runtime_api.h>

#include "cuda_types.h"

#define TITAN_RESULT cudaError_t
#define TITAN_SUCCESS cudaSuccess
#define TITAN_MISSING_RESULT cudaErrorSharedObjectSymbolNotFound
#define TITAN_FUNCTION_KIND kRuntimeSymbol
#include "cuda_wrapper.h"

// The table against the vendor's header: a row whose parameters differ does not compile, unless it says that they
// changed.
extern "C" {
#define CHANGED(...)
#define TITAN_ROW(name, params, ...) cudaError_t name params;
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"
}

namespace titan::interpose {

namespace {

uint64_t blocks(dim3 grid) { return uint64_t{grid.x} * grid.y * grid.z; }
uint64_t blocks_of(const cudaLaunchConfig_t* config) { return config != nullptr ? blocks(config->gridDim) : 0; }
const void* stream_of(const cudaLaunchConfig_t* config) { return config != nullptr ? config->stream : nullptr; }

template <typename Parameters>
uint64_t bytes(const Parameters* copy) {
    return copy != nullptr ? copy->extent.width * copy->extent.height * copy->extent.depth : 0;
}

}  // namespace

#define TITAN_CLASS(CLASS, ...) TITAN_##CLASS(__VA_ARGS__)
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"

namespace {

const ThunkSet thunks[] = {
#define TITAN_ROW(name, ...) TITAN_THUNKS(name),
#define TITAN_TABLE "cuda_runtime.def"
#include "every_row.h"
};

}  // namespace

const ThunkSet* const runtime_thunks = thunks;

}  // namespace titan::interpose

// The same rows as CUPTI's callbacks see them.
#include "cupti_mode.h"
#define TITAN_CUPTI_COLUMNS(CLASS, ...) CLASS(__VA_ARGS__)
#define TITAN_CUPTI_TABLE "cuda_runtime.def"
#define TITAN_CUPTI_ROWS runtime_cupti_rows
#include "cupti_rows.h"

// The driver's wrappers. One row per ELF symbol: without the first line cuda.h would rename some of them by macro.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <type_traits>

#include "cuda_types.h"

#define TITAN_RESULT CUresult
#define TITAN_SUCCESS CUDA_SUCCESS
#define TITAN_MISSING_RESULT CUDA_ERROR_NOT_FOUND
#define TITAN_FUNCTION_KIND kDriverHandle
#include "cuda_wrapper.h"

// Each row against cudaTypedefs.h. A form that is newer than the installed header is not in there: then the name is
// found one level further out, where the row itself declares it.
#define TITAN_ROW(name, base, since, params, ...) using PFN_##base##_v##since = CUresult(*) params;
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
namespace vendor {
#include <cudaTypedefs.h>
#define TITAN_ROW(name, base, since, params, ...) \
    static_assert(std::is_same_v<PFN_##base##_v##since, CUresult(*) params>, #name);
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
}  // namespace vendor

namespace titan::interpose {

namespace {

uint64_t blocks(unsigned x, unsigned y, unsigned z) { return uint64_t{x} * y * z; }
uint64_t blocks_of(const CUlaunchConfig* config) {
    return config != nullptr ? blocks(config->gridDimX, config->gridDimY, config->gridDimZ) : 0;
}
const void* stream_of(const CUlaunchConfig* config) { return config != nullptr ? config->hStream : nullptr; }

uint64_t bytes(const CUDA_MEMCPY2D_v2* copy) { return copy != nullptr ? copy->WidthInBytes * copy->Height : 0; }
template <typename Copy>
uint64_t bytes(const Copy* copy) {
    return copy != nullptr ? copy->WidthInBytes * copy->Height * copy->Depth : 0;
}

constexpr int kConditionalNode = 13;  // a header before CUDA 12.3 has no word for it
#if CUDA_VERSION >= 12030
static_assert(kConditionalNode == CU_GRAPH_NODE_TYPE_CONDITIONAL);
#endif

// The generic forms say by a type which member of the union is meant. Templates, so that a header without the type
// compiles.
template <typename Parameters>
void note_node_added(const void* graph, const void* node, const Parameters* parameters) {
    if constexpr (requires { parameters->graph.graph; }) {
        if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            note_child_added(graph, node, parameters->graph.graph);
        }
    }
    if constexpr (requires { parameters->conditional.phGraph_out; }) {
        if (static_cast<int>(parameters->type) == kConditionalNode) {
            for (unsigned i = 0; i < parameters->conditional.size; ++i) {
                note_conditional_body(parameters->conditional.phGraph_out[i]);
            }
        }
    }
}
template <typename Parameters>
void note_exec_node_set(const void* exec, const void* node, const Parameters* parameters) {
    if constexpr (requires { parameters->graph.graph; }) {
        if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            note_exec_child_set(exec, node, parameters->graph.graph);
        }
    }
}

}  // namespace

#define TITAN_CLASS(CLASS, name, base, since, ...) TITAN_##CLASS(name, __VA_ARGS__)
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"

namespace {

const ThunkSet thunks[] = {
#define TITAN_ROW(name, ...) TITAN_THUNKS(name),
#define TITAN_TABLE "cuda_driver.def"
#include "every_row.h"
};

}  // namespace

const ThunkSet* const driver_thunks = thunks;

}  // namespace titan::interpose

// The same rows as CUPTI's callbacks see them.
#include "cupti_mode.h"
#define TITAN_CUPTI_COLUMNS(CLASS, name, base, since, ...) CLASS(name, __VA_ARGS__)
#define TITAN_CUPTI_TABLE "cuda_driver.def"
#define TITAN_CUPTI_ROWS driver_cupti_rows
#include "cupti_rows.h"
